/// How much a connection may send if earlier connections ended in a refusal. It begins with little,
/// and the amount doubles each time that an answer would have come and none has.
///
/// A refusal comes late, and the gateway discards everything behind the refused frame. Where
/// refused tokens are close together, sending at full speed would send everything dozens of times.
/// With gaps of m notifications on average, distributed exponentially, a first allowance of a·m
/// costs a − 1 + e^−a resends for each notification, and e^−a of the connections wait for a second
/// allowance. With a = 4 these are 3 resends and 2 %.
///
/// The time of both together is shortest with a = ln(1 + T / (m·f)), where T is how late an answer
/// comes and f how long a frame takes. So little is sent ahead near the gateway, and much far away.
struct SlowStart: Sendable {
  private var allowance: Int
  private let interval: Duration
  private var doublings = 0
  /// When the present allowance was used up; nil while it lasts.
  private var usedUpAt: Instant?

  /// The bounds of `a`.
  private static let factors = 1.0...5.0
  /// The `f` above: the time that a frame takes on the sender's and the gateway's processor.
  private static let frameTime = 1e-6
  /// About one batch. A smaller allowance would save nothing.
  private static let smallestAllowance = 128
  private static let largestAllowance = 1 << 24
  /// After this many doublings there is no limit.
  private static let doublingLimit = 10

  /// - Parameters:
  ///   - gap: the average number of notifications from one refusal to the next.
  ///   - answerTime: the average time from sending a refused frame to its answer.
  init(gap: Double, answerTime: Duration) {
    let best = Self.logarithm(1 + answerTime.inSeconds / (max(gap, 1) * Self.frameTime))
    let factor = min(max(best, Self.factors.lowerBound), Self.factors.upperBound)
    allowance = max(Self.smallestAllowance, Int(min(gap * factor, Double(Self.largestAllowance))))
    // A margin, because answers do not all take the same time.
    interval = max(.milliseconds(1), answerTime * 5 / 4)
  }

  /// The natural logarithm of a number from 1 on, to within 0.06.
  private static func logarithm(_ value: Double) -> Double { (Double(value.exponent) + value.significand - 1) * 0.6931 }

  /// How many more notifications may be sent now on a connection that has sent `sentCount`; nil:
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

  /// When the allowance grows; nil while it is not used up.
  var nextAt: Instant? { usedUpAt.map { $0 + interval } }
}

/// How often a lane's connections end in a refusal and how late the refusals come, over about the
/// last eight connections.
package struct RefusalStatistics: Sendable {
  private var settledCount = 0.0
  private var refusalCount = 0.0
  private var answerTime = Duration.zero

  /// Below this value, the last refusal was thirty connections ago.
  private static let forgottenCount = 0.02

  package init() {}

  /// Whether connections have ended in refusals recently.
  package var hasRefusals: Bool { refusalCount > Self.forgottenCount }

  /// A frame without an answer for this long has most likely been accepted; nil while there are no
  /// refusals.
  var answerLimit: Duration? { hasRefusals ? max(.milliseconds(1), answerTime * 5 / 4) : nil }

  /// A connection has ended that settled something or was refused something. Each one weighs 1/8
  /// less than the next.
  mutating func connectionEnded(settledCount count: Int, inRefusal: Bool) {
    guard count > 0 || inRefusal, refusalCount > 0 || inRefusal else { return }
    settledCount = settledCount * 7 / 8 + Double(count)
    refusalCount = refusalCount * 7 / 8 + (inRefusal ? 1 : 0)
  }

  /// A refusal came this long after its frame was sent.
  mutating func answered(after time: Duration) {
    answerTime = answerTime == .zero ? time : (answerTime * 3 + time) / 4
  }

  /// The average number of notifications from one refusal to the next; nil while there are no
  /// refusals.
  package var gap: Double? { hasRefusals ? settledCount / refusalCount : nil }

  /// How many lanes are needed to send `count` notifications within `time`; at least one. Each
  /// refusal costs a lane one answer's time, and a dial that takes about twice as long.
  package func usefulLaneCount(for count: Int, within time: Duration) -> Int {
    guard let gap else { return 1 }
    let refusals = Double(count) / max(gap, 1)
    return Int(min(max(1, refusals * answerTime.inSeconds * 3 / time.inSeconds), 10_000))
  }

  /// The slow start of the next connection; nil if none has ended in a refusal recently.
  var slowStart: SlowStart? { gap.map { SlowStart(gap: $0, answerTime: answerTime) } }
}
