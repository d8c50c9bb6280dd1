internal import Carillon
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import PushService
internal import PushStore
internal import PushTransport
internal import Synchronization

/// Carries a POST out once, however often its caller repeats it with the same `Idempotency-Key`.
///
/// A row in the store says that the request begins, before anything is done. So whatever happens
/// afterwards, it is never carried out twice: without an answer in the store, a repetition is
/// refused.
struct Idempotency: RouterMiddleware {
  typealias Context = ControlContext

  let access: ControlAccess
  let store: any Store
  /// The incarnation of this process among those that share the store.
  let incarnation: @Sendable () -> Int64
  /// The requests of this process, also when its service restarts.
  private static let running = RunningRequests()

  /// What belongs to an answer, whenever it is given.
  private static let repeatedHeaders: [HTTPField.Name] = [.contentType, .location, .eTag]

  /// How long keys are kept.
  static let age = Duration.seconds(24 * 3600)
  private static let keyByteCountLimit = 255
  private static let header = HTTPField.Name("Idempotency-Key")
  private static let replayed = HTTPField.Name("Idempotent-Replayed")

  func handle(
    _ request: Request, context: ControlContext, next: (Request, ControlContext) async throws -> Response
  ) async throws -> Response {
    guard request.method == .post, !Self.isStreamed(context.route),
      let key = Self.header.flatMap({ request.headers[$0] })
    else { return try await next(request, context) }
    guard (1...Self.keyByteCountLimit).contains(key.utf8.count), key.utf8.allSatisfy({ (33...126).contains($0) }) else {
      throw Problem.malformed(
        "The header Idempotency-Key must have from 1 to \(Self.keyByteCountLimit) visible ASCII characters.")
    }
    return try await withCommonPool { try await once(request, key, context, next) }
  }

  private func once(
    _ request: Request, _ key: String, _ context: ControlContext,
    _ next: (Request, ControlContext) async throws -> Response
  ) async throws -> Response {
    var caller = try await access.caller(request, context)
    var context = context
    context.caller = caller
    // Before the body: one that the caller may not send takes no memory.
    let limit = try await bodyLimit(request, context)
    let body = try await access.body(of: request, by: caller.keyID, limit: limit, until: context.memory)
    // The request's own handler asks what its key allows now.
    caller = try await access.keys.current(caller.keyID)
    context.caller = caller
    let entry = IdempotentRequest(
      caller: caller.keyID, key: key, digest: Self.digest(request, body), begunAt: access.clock.now,
      holder: incarnation())
    let place = RunningRequests.Place(caller: caller.keyID, key: key)
    let isFirst = Self.running.add(place)
    defer { Self.running.remove(place) }
    // The store could not be written when it was refused.
    if isFirst, Self.running.isLeft(place) { try await withdraw(entry, place) }
    var found = try await store.begin(entry, oldest: Self.oldest(at: entry.begunAt))
    // An equal request that came after this one may have reached the store before it.
    let isAlone = Self.running.isAlone(place)
    if isAlone, found == .begun {
      // It may have ended since, and left its answer.
      found = try await store.begin(entry, oldest: Self.oldest(at: entry.begunAt))
    }
    switch found {
    case .new: return try await carryOut(request, body, entry, place, context, next)
    case .answered(let answer): return Self.response(answer)
    case .different:
      throw Problem(
        .unprocessableContent, "Key used before", "Another request had this Idempotency-Key.",
        action: "Give each request a key of its own, and repeat a request unchanged.")
    case .begunElsewhere,
      .begun where !isAlone:
      throw Problem(.conflict, "Still running", "A request with this Idempotency-Key is still running.", retryAfter: 1)
    case .begun:
      throw Problem(
        .conflict, "Interrupted", "A request with this Idempotency-Key was interrupted, and may have been carried out.",
        action: "Look whether it was, and send it with another key if not.")
    }
  }

  /// Scopes of the addresses of single apps whose bodies can be large.
  private static let scopes: [String: Scope] = [
    "v1/apps/{app}/notifications": .send, "v1/apps/{app}/notifications:batch": .send,
    "v1/apps/{app}/campaigns": .campaigns,
  ]

  /// - Returns: nil: as many bytes as any request may have.
  private func bodyLimit(_ request: Request, _ context: ControlContext) async throws -> Int? {
    guard let route = context.route,
      let scope = Self.scopes[String(route.drop { $0 == "/" })]
    else { return BodyMemory.smallByteCount }
    _ = try await access.app(request, context, scope)
    return nil
  }

  static func oldest(at instant: StoreInstant) -> StoreInstant {
    StoreInstant(milliseconds: instant.milliseconds - age.components.seconds * 1000)
  }

  private func carryOut(
    _ request: Request, _ body: [UInt8], _ entry: IdempotentRequest, _ place: RunningRequests.Place,
    _ context: ControlContext, _ next: (Request, ControlContext) async throws -> Response
  ) async throws -> Response {
    var request = request
    request.body = RequestBody(buffer: ByteBuffer(bytes: body))
    let response: Response
    do { response = try await next(request, context) } catch {
      let problem = Problem(describing: error)
      if !problem.isDoubtful { try? await withdraw(entry, place) }
      throw problem
    }
    guard response.status.kind == .successful else {
      try? await withdraw(entry, place)
      return response
    }
    var headers: [String: String] = [:]
    for name in Self.repeatedHeaders { headers[name.canonicalName] = response.headers[name] }
    let answer = StoredAnswer(
      status: response.status.code, headers: headers, body: try await CollectedBody.bytes(of: response.body))
    try await access.clock.waiting { () throws(StoreError) in try await store.finish(entry, answer) }
    return Response(
      status: response.status, headers: response.headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: answer.body))
    )
  }

  /// Forgets a request of which nothing was done, now or before it is repeated.
  private func withdraw(_ entry: IdempotentRequest, _ place: RunningRequests.Place) async throws(StoreError) {
    Self.running.leave(place)
    try await store.withdraw(entry)
    Self.running.forget(place)
  }

  /// Bodies and answers that are not held as a whole. Asking twice does no more than asking once.
  ///
  /// - Parameter route: not the path, which can be written in several ways.
  private static func isStreamed(_ route: String?) -> Bool {
    guard let route else { return false }
    return ["/devices:import", "/audience", "/store:backup"].contains { route.hasSuffix($0) }
  }

  private static func digest(_ request: Request, _ body: [UInt8]) -> [UInt8] {
    Digest.sha256(Array("\(request.method.rawValue) \(request.uri.string)\n".utf8) + Digest.sha256(body))
  }

  private static func response(_ answer: StoredAnswer) -> Response {
    var response = Response(
      status: HTTPResponse.Status(code: answer.status), body: ResponseBody(byteBuffer: ByteBuffer(bytes: answer.body)))
    for name in repeatedHeaders { response.headers[name] = answer.headers[name.canonicalName] }
    if let replayed { response.headers[replayed] = "true" }
    return response
  }
}

/// Requests with keys that this process carries out, or has refused and the store still has.
private final class RunningRequests: Sendable {
  struct Place: Hashable {
    let caller: String
    let key: String
  }

  private let places = Mutex<[Place: Int]>([:])
  private let left = Mutex<Set<Place>>([])

  /// While the disk is full. With more, a repetition is refused as if the process had been killed.
  private static let leftLimit = 10_000

  /// - Returns: false if it is there already.
  func add(_ place: Place) -> Bool {
    places.withLock { places in
      places[place, default: 0] += 1
      return places[place] == 1
    }
  }

  func remove(_ place: Place) {
    places.withLock { places in
      let left = places[place, default: 0] - 1
      places[place] = left > 0 ? left : nil
    }
  }

  func isAlone(_ place: Place) -> Bool { places.withLock { $0[place] == 1 } }

  func leave(_ place: Place) { left.withLock { if $0.count < Self.leftLimit { $0.insert(place) } } }
  func forget(_ place: Place) { left.withLock { _ = $0.remove(place) } }
  func isLeft(_ place: Place) -> Bool { left.withLock { $0.contains(place) } }
}

private struct CollectedBody: ResponseBodyWriter {
  /// Shared, because the body takes a copy of its writer.
  private final class Bytes {
    var all: [UInt8] = []
  }

  private let bytes = Bytes()

  static func bytes(of body: ResponseBody) async throws -> [UInt8] {
    let writer = CollectedBody()
    try await body.write(writer)
    return writer.bytes.all
  }

  func write(_ buffer: ByteBuffer) async throws { bytes.all += buffer.readableBytesView }
  consuming func finish(_ trailingHeaders: HTTPFields?) async throws {}
}
