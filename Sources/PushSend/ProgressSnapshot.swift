/// How far a campaign is, over all its apps.
package struct ProgressSnapshot: Hashable, Sendable {
  /// Notifications taken in, and those with an outcome.
  package var submitted: Int
  package var settled: Int
  package var rejected: Int
  /// How much of the token files has been read, and their size together; nil when one of them is a
  /// pipe.
  package var consumedByteCount: Int
  package var totalByteCount: Int?
  /// The time since the campaign was started or resumed.
  package var elapsed: Duration
  /// What had its outcome at that time, and ``fraction`` then.
  package var settledBefore = 0
  package var fractionBefore = 0.0
  /// In the order in which they are shown.
  package var apps: [AppProgress] = []

  package init(
    submitted: Int, settled: Int, rejected: Int, consumedByteCount: Int, totalByteCount: Int?, elapsed: Duration,
    settledBefore: Int = 0, fractionBefore: Double = 0, apps: [AppProgress] = []
  ) {
    self.submitted = submitted
    self.settled = settled
    self.rejected = rejected
    self.consumedByteCount = consumedByteCount
    self.totalByteCount = totalByteCount
    self.elapsed = elapsed
    self.settledBefore = settledBefore
    self.fractionBefore = fractionBefore
    self.apps = apps
  }

  /// 0…1: how much of the audience is done, as far as is known; nil for pipes.
  ///
  /// The number of lines is known only at the end, so it is estimated from the bytes read so far.
  package var fraction: Double? {
    guard let totalByteCount, totalByteCount > 0 else { return nil }
    let read = min(1, Double(consumedByteCount) / Double(totalByteCount))
    return submitted > 0 ? read * Double(settled) / Double(submitted) : 0
  }
}
