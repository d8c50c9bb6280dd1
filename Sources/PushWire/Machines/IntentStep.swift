/// How many notifications an intent covers ahead of what is sent: as many as the lane sends in
/// about 40 ms.
///
/// After a crash, everything that an intent covers may have arrived. So a lane that sends little
/// covers little. An intent takes a commit of the journal, about 10 ms, until it counts; the next
/// one is written when half of the present one is used up. A lane that has to wait for it covers
/// four times as many with the next one.
package struct IntentStep: Sendable {
  /// The present step.
  package private(set) var count: Int

  /// The last intent was written then, with so much sent.
  private var last: (at: Instant, sent: UInt64)?
  private var hasStalled = false

  package static let smallest = 16
  private static let span = Duration.milliseconds(40)
  private static let growth = 4

  package init() { count = Self.smallest }

  /// The lane could send more, and waits for an intent that was cut to a step.
  package mutating func stalled() { hasStalled = true }

  /// An intent is written now.
  ///
  /// - Parameters:
  ///   - sent: the position in the ring up to which the lane has sent.
  ///   - blockCount: the blocks of a notification.
  ///   - largest: the upper bound of the step.
  package mutating func advance(sent: UInt64, blockCount: UInt64, largest: Int, now: Instant) {
    defer {
      last = (now, sent)
      hasStalled = false
    }
    if hasStalled {
      count = min(max(count, largest), count * Self.growth)
    } else if let last, sent >= last.sent {
      let elapsed = now.since(last.at)
      let spans = elapsed.inSeconds / Self.span.inSeconds
      // Each span without a wait halves it, as far as the rate allows.
      let halved = spans >= 1 ? count >> min(Int(min(spans, 62)), 62) : count
      let needed = spans > 0 ? Double((sent - last.sent) / max(1, blockCount)) / spans : 0
      count = max(halved, Int(min(needed, Double(count))))
    }
    count = max(Self.smallest, count)
  }
}
