/// Watches how many of an app's answers call the device token bad. A sudden increase means a wrong
/// environment or topic. The app then pauses, and no token is removed for these answers
/// (HTTP2ProviderAPI.md, "What our sender makes of it").
package struct BadTokenBreaker: Sendable {
  private let share: Double
  private let sampleCount: Int
  /// The last full half of a sample, and the half that is being filled.
  private var before = (answers: 0, bad: 0)
  private var present = (answers: 0, bad: 0)
  private var hasTripped = false

  /// - Parameters:
  ///   - share: the share of bad ones that trips the breaker, among about the last `sampleCount`
  ///     answers.
  ///   - sampleCount: with fewer answers the breaker never trips.
  package init(share: Double, sampleCount: Int) {
    self.share = share
    self.sampleCount = max(1, sampleCount)
  }

  /// Counts answers. Returns the reason when the app must pause, but only the first time.
  package mutating func answered(_ count: Int, bad: Int) -> String? {
    present.answers += count
    present.bad += bad
    let (answers, bad) = (before.answers + present.answers, before.bad + present.bad)
    if !hasTripped, answers >= sampleCount, Double(bad) >= share * Double(answers) {
      hasTripped = true
      return "\(bad) of the last \(answers) answers call the device token bad: "
        + "the environment or topic may be wrong; no token is removed before that is known"
    }
    if present.answers * 2 >= sampleCount {
      before = present
      present = (0, 0)
    }
    return nil
  }
}
