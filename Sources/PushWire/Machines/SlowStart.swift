/// How much a connection may send, if connections before it have ended in a refusal: little at
/// first, twice as much each time that an answer would have come and none has.
///
/// A refusal comes late, and the gateway discards everything behind the refused frame. Where
/// refused tokens stand close together, sending on at full speed means sending everything dozens of
/// times. With gaps of m notifications on average, distributed exponentially, a first allowance of
/// a·m costs a − 1 + e^−a frames sent again for each notification, and e^−a of the connections have
/// to wait for a second one: with a = 4 these are 3 frames and 2 %.
///
/// The time that both take together is least with a = ln(1 + T / (m·f)), where T is how late an
/// answer comes and f how long a frame takes: next to the gateway little is sent ahead, far away
/// much.
struct SlowStart: Sendable {
  private var allowance: Int
  private let interval: Duration
  private var doublings = 0
  /// When the present allowance was used up; nil while it lasts.
  private var usedUpAt: Instant?

  /// Bounds of the `a` above.
  private static let factors = 1.0...5.0
  /// The `f` above: what a frame takes of the sender's processor and of the gateway's.
  private static let frameTime = 1e-6
  /// About one batch: holding back less saves nothing that counts.
  private static let smallestAllowance = 128
  private static let largestAllowance = 1 << 24
  /// After so many nothing is held back any more.
  private static let doublingLimit = 10

  /// - Parameters:
  ///   - gap: notifications from one refusal to the next, on average.
  ///   - answerTime: from a refused frame's sending to its answer, on average.
  init(gap: Double, answerTime: Duration) {
    let best = Self.logarithm(1 + answerTime.inSeconds / (max(gap, 1) * Self.frameTime))
    let factor = min(max(best, Self.factors.lowerBound), Self.factors.upperBound)
    allowance = max(Self.smallestAllowance, Int(min(gap * factor, Double(Self.largestAllowance))))
    // Answers do not all take the same time.
    interval = max(.milliseconds(1), answerTime * 5 / 4)
  }

  /// The natural one of a number from 1 on, to within 0.06.
  private static func logarithm(_ value: Double) -> Double { (Double(value.exponent) + value.significand - 1) * 0.6931 }

  /// How many more notifications may be sent now on a connection that has sent `sentCount`; nil for
  /// any number.
  mutating func remaining(sentCount: Int, now: Instant) -> Int? {
    guard doublings < Self.doublingLimit else { return nil }
    guard sentCount >= allowance else { return allowance - sentCount }
    guard let usedUpAt else {
      usedUpAt = now
      return 0
    }
    guard usedUpAt + interval <= now else { return 0 }
    allowance *= 2
    doublings += 1
    self.usedUpAt = nil
    return doublings < Self.doublingLimit ? allowance - sentCount : nil
  }

  /// When the allowance grows, if it is used up.
  var nextAt: Instant? { usedUpAt.map { $0 + interval } }
}

/// How often a lane's connections end in a refusal, and how late the refusals come, of about the
/// last eight connections.
package struct RefusalStatistics: Sendable {
  private var settledCount = 0.0
  private var refusalCount = 0.0
  private var answerTime = Duration.zero

  /// The last refusal is thirty connections back.
  private static let forgottenCount = 0.02

  package init() {}

  /// Whether connections have ended in refusals lately.
  package var hasRefusals: Bool { refusalCount > Self.forgottenCount }

  /// A frame without an answer after so long is most likely accepted; nil while there are no refusals.
  var answerLimit: Duration? { hasRefusals ? max(.milliseconds(1), answerTime * 5 / 4) : nil }

  /// A connection that settled something, or was refused something, has ended. Each weighs 1/8 less
  /// than the one after it.
  mutating func connectionEnded(settledCount count: Int, inRefusal: Bool) {
    guard count > 0 || inRefusal, refusalCount > 0 || inRefusal else { return }
    settledCount = settledCount * 7 / 8 + Double(count)
    refusalCount = refusalCount * 7 / 8 + (inRefusal ? 1 : 0)
  }

  /// A refusal came so long after its frame was sent.
  mutating func answered(after time: Duration) {
    answerTime = answerTime == .zero ? time : (answerTime * 3 + time) / 4
  }

  /// Notifications from one refusal to the next, on average; nil while there are no refusals.
  package var gap: Double? { hasRefusals ? settledCount / refusalCount : nil }

  /// How many lanes it takes until so many notifications have been sent: each refusal costs a lane an
  /// answer's time, and a dial that takes about twice as long. At least one.
  package func usefulLaneCount(for count: Int, within time: Duration) -> Int {
    guard let gap else { return 1 }
    let refusals = Double(count) / max(gap, 1)
    return Int(min(max(1, refusals * answerTime.inSeconds * 3 / time.inSeconds), 10_000))
  }

  /// For the next connection; nil while none has ended in a refusal lately.
  var slowStart: SlowStart? {
    gap.map { SlowStart(gap: $0, answerTime: answerTime) }
  }
}
