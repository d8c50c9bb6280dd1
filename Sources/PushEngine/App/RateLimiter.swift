internal import PushTransport
internal import PushWire
internal import Synchronization

/// What a limit is used for: how much was taken, and whether more was wanted.
package struct RateUse: Hashable, Sendable {
  package var count = 0
  package var wantsMore = false

  package init() {}
}

/// An app's limit of notifications per second, over all its campaigns.
final class RateLimiter: Sendable {
  private struct Rate {
    var perSecond: Double?
    var sending: SendingRate?
    var writing: SecondLimit?
    /// What this process may use of a limit that others keep, too, and until when.
    var share: (perSecond: Double, until: Instant)?
    var use = RateUse()

    /// Whether nothing may be sent, because the others may use all of it.
    func isExhausted(now: Instant) -> Bool {
      guard perSecond != nil, let share else { return false }
      return share.until <= now || share.perSecond < RateLimiter.leastShare
    }

    init(_ perSecond: Double?, now: Instant) {
      self.perSecond = perSecond
      sending = perSecond.map { SendingRate(perSecond: $0, now: now) }
      writing = perSecond.map { SecondLimit(perSecond: $0, now: now) }
    }
  }

  /// The longest wait before a task checks whether the limit has changed.
  private static let longestWait = Duration.seconds(1)
  /// The same while this process has no share.
  private static let shareWait = Duration.milliseconds(50)
  /// Per second. Less is nothing.
  package static let leastShare = 0.01

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
    rate.withLock { $0.share?.perSecond ?? $0.perSecond }.map { SendingRate.unconnectedLimit(perSecond: $0) } ?? .max
  }

  /// Changes the limit from now on.
  func replace(perSecond: Double?) {
    let now = loop.now
    rate.withLock { rate in
      guard rate.perSecond != perSecond else { return }
      let share = rate.share
      rate = Rate(perSecond, now: now)
      rate.share = share.map { (0, $0.until) }
      limited.store(perSecond != nil, ordering: .relaxed)
    }
  }

  /// How much of the limit this process may use for a while, because others keep it, too.
  func use(perSecond: Double, for duration: Duration) {
    let now = loop.now
    rate.withLock { rate in
      rate.share = (perSecond, now + duration)
      guard perSecond >= Self.leastShare else { return }
      rate.sending?.change(perSecond: perSecond, now: now)
      rate.writing?.change(perSecond: perSecond, now: now)
    }
  }

  /// What was used since the last call.
  func takeUse() -> RateUse {
    rate.withLock { rate in
      defer { rate.use = RateUse() }
      return rate.use
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
      if rate.isExhausted(now: now) { return .later(now + Self.shareWait) }
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
      if rate.isExhausted(now: now) {
        rate.use.wantsMore = true
        return (0, now + Self.shareWait)
      }
      let taken = rate.sending?.take(upTo: count, now: now) ?? count
      rate.use.count += taken
      if taken < count { rate.use.wantsMore = true }
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
