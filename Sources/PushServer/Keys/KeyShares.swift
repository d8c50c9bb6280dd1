internal import Hummingbird
internal import PushService
internal import PushWire
internal import Synchronization

/// How many requests each key has under way: uploads and streams of events last as long as their
/// clients like, and one key must not take every connection.
final class KeyShares: Sendable {
  /// Of one key.
  let limit: Int
  private let counts = Mutex<[String: Int]>([:])

  /// Connections that a key may have however few there are.
  private static let least = 16

  /// - Parameter maxConnections: of all keys.
  init(maxConnections: Int) { limit = max(maxConnections / 4, min(maxConnections, Self.least)) }

  /// One request that is being answered. It ends with the last reference.
  final class Place: Sendable {
    private let shares: KeyShares
    private let key: String

    fileprivate init(_ shares: KeyShares, _ key: String) { (self.shares, self.key) = (shares, key) }

    deinit { shares.give(key) }
  }

  /// - Returns: nil if the key has its share.
  func take(_ key: String) -> Place? {
    let isFree = counts.withLock { counts in
      guard counts[key, default: 0] < limit else { return false }
      counts[key, default: 0] += 1
      return true
    }
    return isFree ? Place(self, key) : nil
  }

  private func give(_ key: String) {
    counts.withLock { counts in
      let left = (counts[key] ?? 1) - 1
      counts[key] = left > 0 ? left : nil
    }
  }
}

/// Refuses requests of a key beyond its rate or its share, and tells the listener which connections
/// have a key. A request without a valid key is refused by its own handler, because some addresses
/// need none.
struct KeyShareCheck: RouterMiddleware {
  typealias Context = ControlContext

  let access: ControlAccess
  let shares: KeyShares
  let channels: OpenChannels
  let sessions: DashboardSessions

  func handle(
    _ request: Request, context: ControlContext, next: (Request, ControlContext) async throws -> Response
  ) async throws -> Response {
    guard request.headers[.authorization] != nil else {
      if let key = await sessions.keyID(of: request) {
        channels.note(context.channel, hasKey: (try? await access.keys.current(key)) != nil)
      }
      return try await next(request, context)
    }
    let caller: Caller
    do { caller = try await access.caller(request, context) } catch let problem as Problem
      where problem.status == .unauthorized
    {
      channels.note(context.channel, hasKey: false)
      return try await next(request, context)
    }
    channels.note(context.channel, hasKey: true)
    guard let place = shares.take(caller.keyID) else {
      throw Problem(
        .tooManyRequests, "Too many requests", "The key has \(shares.limit) requests under way.",
        action: "Let some of them end: uploads and streams of events count until then.",
        retryAfter: 1)
    }
    var context = context
    context.caller = caller
    var response = try await next(request, context)
    if request.method == .get, let count = response.body.contentLength, count > BodyMemory.smallByteCount {
      response = response.holding(try context.answerRoom(count))
    }
    // A stream lasts as long as it is written.
    if response.body.contentLength == nil {
      response.body = ResponseBody { [body = response.body] writer in
        try await body.write(writer)
        withExtendedLifetime(place) {}
      }
    }
    withExtendedLifetime(place) {}
    return response
  }
}

/// How often each key may ask. After a second without a request, as often as the rate at once.
struct KeyRates: Sendable {
  private let perSecond: Double
  /// How many services share the rate.
  private var serviceCount = 1
  /// By the key's id. Only keys that exist are counted, so these are few.
  private var buckets: [String: TokenBucket] = [:]

  /// - Parameter perSecond: requests of one key, above zero.
  init(perSecond: Double) { self.perSecond = perSecond }

  /// - Parameter serviceCount: how many services share the rate at present, with this one.
  /// - Returns: nil if the key may ask now, which is counted; otherwise when it may.
  mutating func admit(_ key: String, among serviceCount: Int = 1, now: Instant) -> Instant? {
    let share = perSecond / Double(max(1, serviceCount))
    if serviceCount != self.serviceCount {
      self.serviceCount = serviceCount
      for key in buckets.keys { buckets[key]?.change(perSecond: share, burst: 1 + share, now: now) }
    }
    // Retry-After has whole seconds: a client that retries up to a second late loses nothing.
    var bucket =
      buckets[key] ?? TokenBucket(perSecond: share, burst: 1 + share, initial: max(1, share), now: now)
    defer { buckets[key] = bucket }
    return bucket.take(upTo: 1, now: now) == 1 ? nil : bucket.nextAt(now: now)
  }
}
