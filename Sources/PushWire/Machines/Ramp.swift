/// How much to send on the connection after a refusal: little at first, twice as much each time it has lived half as long as the refused one did.
///
/// A refusal comes late, and everything sent behind the refused notification is discarded. Where bad tokens stand close together, sending on at
/// full speed means to send everything dozens of times; measured with one bad token in a thousand and answers 200 ms late: 98 times.
/// The time is the same in any case, as each refusal costs its delay.
struct Ramp: Sendable {
  private let base: Int
  private let interval: Duration
  private let openedAt: Instant

  /// Eight times what gets through on average, so that the next refusal is most likely inside the first allowance.
  private static let factor = 8
  private static let smallestBase = 256
  /// After so many doublings nothing is held back any more.
  private static let doublings = 10

  /// - Parameters:
  ///   - settledCount: how many notifications connections that ended in a refusal have settled lately, on average.
  ///   - lifetime: how long the last of them lived.
  init(settledCount: Int, lifetime: Duration, openedAt: Instant) {
    base = max(Self.smallestBase, settledCount * Self.factor)
    interval = max(.milliseconds(1), lifetime / 2)
    self.openedAt = openedAt
  }

  /// Notifications that may have been sent by now; nil for any number.
  func allowance(now: Instant) -> Int? {
    let steps = Int(clamping: now.since(openedAt).wholeNanoseconds / interval.wholeNanoseconds)
    return steps >= Self.doublings ? nil : base << steps
  }

  /// When the allowance next grows.
  func nextAt(now: Instant) -> Instant {
    let steps = Int(clamping: now.since(openedAt).wholeNanoseconds / interval.wholeNanoseconds)
    return openedAt + interval * (min(steps, Self.doublings) + 1)
  }
}
