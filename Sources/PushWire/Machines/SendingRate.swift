/// The rate of notifications of a sender that may run late.
///
/// A sender waits until it may send, and a busy event loop wakes it later than that. What it could
/// have sent meanwhile it may send afterwards, as far as ``lateness`` goes back; otherwise the rate
/// would never be reached. It sends that a little at a time: in no second does it send more than
/// ``excess`` above the rate.
package struct SendingRate: Sendable {
  private var bucket: TokenBucket
  private var lastSecond: LastSecond
  /// Whether anything was sent. Before that no time is lost, so none is caught up.
  private var hasBegun = false

  /// How late a sender may be without losing anything.
  package static let lateness = Duration.milliseconds(250)
  /// How much more than the rate one second may have: a quarter of the 2 % that gateways may see.
  /// The rest is for the ways from here to there, which do not all take the same time.
  package static let excess = 0.005

  /// - Parameter perSecond: notifications, above zero.
  package init(perSecond: Double, now: Instant) {
    bucket = TokenBucket(
      perSecond: perSecond, burst: Self.burst(perSecond: perSecond),
      initial: Double(Self.unconnectedLimit(perSecond: perSecond)), now: now)
    lastSecond = LastSecond(limit: Self.limit(perSecond: perSecond))
  }

  /// Another rate from now on. What was sent lately counts, and a second that begins before a lower
  /// rate may have as many as before.
  package mutating func change(perSecond: Double, now: Instant) {
    bucket.change(perSecond: perSecond, burst: Self.burst(perSecond: perSecond), now: now)
    lastSecond.change(limit: Self.limit(perSecond: perSecond), now: now)
  }

  private static func burst(perSecond: Double) -> Double { 1 + perSecond * lateness.inSeconds }

  /// The most in any second.
  fileprivate static func limit(perSecond: Double) -> Int { Int(min(perSecond * (1 + excess) + 1, Double(Int32.max))) }

  /// How many a connection that is not open yet may hold: what it sends within 10 ms. It sends
  /// them at once when it opens.
  package static func unconnectedLimit(perSecond: Double) -> Int {
    max(1, Int(min(perSecond / 100, Double(Int32.max))))
  }

  /// Takes as many as there are now, at most `count`.
  package mutating func take(upTo count: Int, now: Instant) -> Int {
    begin(now: now)
    let taken = bucket.take(upTo: min(count, lastSecond.room(now: now)), now: now)
    lastSecond.add(taken, now: now)
    return taken
  }

  /// Takes `count`, whether or not there are as many. What is missing must come before the next one
  /// can be taken.
  package mutating func spend(_ count: Int, now: Instant) {
    begin(now: now)
    bucket.spend(count, now: now)
    lastSecond.add(count, now: now)
  }

  /// When the next one can be taken.
  package mutating func nextAt(now: Instant) -> Instant {
    guard hasBegun else { return now }
    return max(bucket.nextAt(now: now), lastSecond.nextAt(now: now))
  }

  private mutating func begin(now: Instant) {
    if !hasBegun { bucket.startRefilling(now: now) }
    hasBegun = true
  }
}

/// Bounds what a sender gives to its connections within any second.
///
/// What ``SendingRate`` has allowed can wait for a connection, for the journal or for streams, and
/// would then leave all at once. It would do so a second later as well, when that second allows it
/// again, and if the way is a little faster then, the gateway has both within a second. So it also
/// leaves evenly.
package struct SecondLimit: Sendable {
  private var lastSecond: LastSecond
  private var evenness: TokenBucket
  private var portion: Double

  /// What may leave at once: what leaves within this time. Whoever is woken later than that has
  /// lost the rest.
  package static let evenSpan = Duration.milliseconds(25)
  /// How much more than the rate what was late may leave with. With more, nothing would be
  /// left for the same moment of the next second, which would be a pause again, with a burst after.
  package static let catchUp = 0.02
  /// Less than leaves within this time is not worth a write.
  private static let portionSpan = Duration.milliseconds(4)

  /// - Parameter perSecond: notifications, above zero. A second has at most ``SendingRate/excess``
  ///   more.
  package init(perSecond: Double, now: Instant) {
    lastSecond = LastSecond(limit: SendingRate.limit(perSecond: perSecond))
    let burst = Self.burst(perSecond: perSecond)
    evenness = TokenBucket(perSecond: perSecond * (1 + Self.catchUp), burst: burst, now: now)
    portion = max(1, perSecond * Self.portionSpan.inSeconds)
  }

  /// Another rate from now on; see ``SendingRate/change(perSecond:now:)``.
  package mutating func change(perSecond: Double, now: Instant) {
    lastSecond.change(limit: SendingRate.limit(perSecond: perSecond), now: now)
    let burst = Self.burst(perSecond: perSecond)
    evenness.change(perSecond: perSecond * (1 + Self.catchUp), burst: burst, now: now)
    portion = max(1, perSecond * Self.portionSpan.inSeconds)
  }

  private static func burst(perSecond: Double) -> Double { 1 + perSecond * evenSpan.inSeconds }

  /// Takes as many as there are now, at most `count`, but no few of many.
  package mutating func take(upTo count: Int, now: Instant) -> Int {
    let wanted = min(count, lastSecond.room(now: now))
    guard evenness.nextAt(min(Double(wanted), portion), now: now) <= now else { return 0 }
    let taken = evenness.take(upTo: wanted, now: now)
    lastSecond.add(taken, now: now)
    return taken
  }

  /// Returns some of what was just taken.
  package mutating func give(back count: Int, now: Instant) {
    lastSecond.add(-count, now: now)
    evenness.spend(-count, now: now)
  }

  /// When the next ones can be taken.
  package mutating func nextAt(now: Instant) -> Instant {
    max(evenness.nextAt(portion, now: now), lastSecond.nextAt(now: now))
  }
}

/// How many were sent within the last second, in slots of its 1000th part. A slot counts as a whole
/// for as long as any part of it may be within that second.
private struct LastSecond {
  private static let slotCount: UInt64 = 1_001
  private static let slotNanoseconds: UInt64 = 1_000_000_000 / 1_000

  /// The most in any second.
  private var limit: Int
  /// Larger limits, the largest first, and when the last second ends that begins before the limit
  /// became less. Otherwise whoever gives up a part of a rate would have to pause first.
  private var formerLimits: [(limit: Int, until: Instant)] = []
  private var slots = [Int32](repeating: 0, count: Int(slotCount))
  private var total = 0
  /// The number of the newest slot.
  private var newest: UInt64 = 0

  init(limit: Int) { self.limit = limit }

  mutating func change(limit: Int, now: Instant) {
    if limit < self.limit { formerLimits.append((self.limit, now + .seconds(1))) }
    self.limit = limit
    formerLimits.removeAll { $0.limit <= limit || $0.until <= now }
  }

  /// How many may be sent now.
  mutating func room(now: Instant) -> Int {
    let most = formerLimits.first { now < $0.until }?.limit ?? limit
    return max(0, most - count(now: now))
  }

  /// When one more may be sent; `now` if that is so already.
  mutating func nextAt(now: Instant) -> Instant {
    for former in formerLimits {
      let time = time(until: former.limit - 1, now: now)
      if time < former.until { return time }
    }
    return time(until: limit - 1, now: now)
  }

  /// - Parameter count: negative: so many of those that were just added were not sent.
  mutating func add(_ count: Int, now: Instant) {
    guard count != 0 else { return }
    advance(now: now)
    let index = Int(newest % Self.slotCount)
    let added = Int32(clamping: max(0, Int(slots[index]) + count)) - slots[index]
    slots[index] += added
    total += Int(added)
  }

  private mutating func count(now: Instant) -> Int {
    advance(now: now)
    return total
  }

  /// When no more than `count` are left; `now` if that is so already.
  private mutating func time(until count: Int, now: Instant) -> Instant {
    advance(now: now)
    var left = total
    guard left > max(0, count) else { return now }
    for age in stride(from: Self.slotCount - 1, through: 0, by: -1) where age <= newest {
      left -= Int(slots[Int((newest - age) % Self.slotCount)])
      // The slot leaves when the slot after the one that takes its place begins.
      if left <= max(0, count) { return Instant(nanoseconds: (newest - age + Self.slotCount) * Self.slotNanoseconds) }
    }
    return now
  }

  /// A clock that goes back changes nothing.
  private mutating func advance(now: Instant) {
    let slot = now.nanoseconds / Self.slotNanoseconds
    guard slot > newest else { return }
    for number in (slot - newest >= Self.slotCount ? slot - Self.slotCount + 1 : newest + 1)...slot {
      let index = Int(number % Self.slotCount)
      total -= Int(slots[index])
      slots[index] = 0
    }
    newest = slot
  }
}
