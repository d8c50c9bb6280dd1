internal import PushTransport
internal import PushWire
internal import Synchronization

/// An app's limit of notifications per second, over all its campaigns.
final class RateLimiter: Sendable {
  private struct Rate {
    var perSecond: Double?
    var sending: SendingRate?
    var writing: SecondLimit?

    init(_ perSecond: Double?, now: Instant) {
      self.perSecond = perSecond
      sending = perSecond.map { SendingRate(perSecond: $0, now: now) }
      writing = perSecond.map { SecondLimit(perSecond: $0) }
    }
  }

  /// The longest wait before a task checks whether the limit has changed.
  private static let longestWait = Duration.seconds(1)

  private let rate: Mutex<Rate>
  private let limited: Atomic<Bool>
  private let loop: any Loop

  /// - Parameter perSecond: Nil: no limit.
  init(perSecond: Double?, loop: any Loop) {
    self.loop = loop
    rate = Mutex(Rate(perSecond, now: loop.now))
    limited = Atomic(perSecond != nil)
  }

  /// See ``LaneScheduler/Claim``.
  var unconnectedLimit: Int {
    rate.withLock { $0.perSecond }.map { SendingRate.unconnectedLimit(perSecond: $0) } ?? .max
  }

  /// Changes the limit from now on.
  func replace(perSecond: Double?) {
    let now = loop.now
    rate.withLock { rate in
      guard rate.perSecond != perSecond else { return }
      rate = Rate(perSecond, now: now)
      limited.store(perSecond != nil, ordering: .relaxed)
    }
  }

  // MARK: Connections

  /// Whether lanes have to ask before they send.
  var isLimited: Bool { limited.load(ordering: .relaxed) }

  enum Permission {
    /// So many, all that were asked for.
    case all(Int)
    /// So many of them.
    case part(Int)
    /// Ask again then.
    case later(Instant)
  }

  /// How many a lane may send now, at most `count`.
  func permission(upTo count: Int, now: Instant) -> Permission {
    rate.withLock { rate in
      guard let taken = rate.writing?.take(upTo: count, now: now), taken < count else { return .all(count) }
      if taken > 0 { return .part(taken) }
      return .later(min(rate.writing?.nextAt(now: now) ?? now, now + Self.longestWait))
    }
  }

  /// A lane has sent so many less than it was permitted.
  func giveBack(_ count: Int, now: Instant) {
    if count > 0 { rate.withLock { $0.writing?.give(back: count, now: now) } }
  }

  // MARK: Readers

  /// The number of notifications, up to `count`, that the limit allows now. Waits until there is at
  /// least one. 0: cancelled.
  func allowance(upTo count: Int, isCancelled: () -> Bool) async -> Int {
    while !isCancelled() {
      let (allowed, nextAt) = allowanceNow(upTo: count)
      if allowed > 0 { return allowed }
      await sleep(until: nextAt)
    }
    return 0
  }

  /// The same without waiting: 0 if the limit allows none now; ask again at `nextAt`.
  func allowanceNow(upTo count: Int) -> (count: Int, nextAt: Instant) {
    let now = loop.now
    return rate.withLock { rate in
      let taken = rate.sending?.take(upTo: count, now: now) ?? count
      return (taken, min(rate.sending?.nextAt(now: now) ?? now, now + Self.longestWait))
    }
  }

  func pause(_ duration: Duration) async { await sleep(until: loop.now + duration) }

  private func sleep(until deadline: Instant) async {
    await withCheckedContinuation { continuation in
      _ = loop.schedule(at: deadline) { continuation.resume() }
    }
  }
}
