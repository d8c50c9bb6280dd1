/// Watches how many of an app's answers say that the token is bad. A jump means a wrong environment or topic: the app then pauses instead of going through its audience,
/// and nobody prunes a token for it (HTTP2ProviderAPI.md, "What our sender makes of it").
package struct BadTokenBreaker: Sendable {
  private let share: Double
  private let sampleCount: Int
  /// The last full half of a sample, and the one being filled.
  private var before = (answers: 0, bad: 0)
  private var present = (answers: 0, bad: 0)
  private var hasTripped = false

  /// - Parameters:
  ///   - share: of bad ones among the last `sampleCount` answers, half of that more or less, that trips it.
  ///   - sampleCount: fewer answers say nothing.
  package init(share: Double, sampleCount: Int) {
    self.share = share
    self.sampleCount = max(1, sampleCount)
  }

  /// So many answers have come. Returns why the app must pause, the first time that it must.
  package mutating func answered(_ count: Int, bad: Int) -> String? {
    present.answers += count
    present.bad += bad
    let (answers, bad) = (before.answers + present.answers, before.bad + present.bad)
    if !hasTripped, answers >= sampleCount, Double(bad) >= share * Double(answers) {
      hasTripped = true
      return "\(bad) of the last \(answers) answers call the device token bad: a wrong environment or topic; no token is at fault before that is known"
    }
    if present.answers * 2 >= sampleCount {
      before = present
      present = (0, 0)
    }
    return nil
  }
}
