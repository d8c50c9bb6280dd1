internal import Carillon
internal import PushWire

/// How far a campaign is, over all its apps.
package struct ProgressSnapshot: Hashable, Sendable {
  /// Notifications taken in, and those with an outcome.
  package var submitted: Int
  package var settled: Int
  package var rejected: Int
  /// Bytes of token files that were read, and their size together; nil when one of them is a pipe.
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
    (self.submitted, self.settled, self.rejected) = (submitted, settled, rejected)
    (self.consumedByteCount, self.totalByteCount, self.elapsed) = (consumedByteCount, totalByteCount, elapsed)
    (self.settledBefore, self.fractionBefore, self.apps) = (settledBefore, fractionBefore, apps)
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

/// The rate of the last second or so: that of the whole run would hide that it has stopped.
package struct ProgressRate: Sendable {
  /// Notifications with an outcome, per second.
  package private(set) var perSecond = 0.0
  private let isSmoothed: Bool
  private var start: (elapsed: Duration, settled: Int)?

  package init(isSmoothed: Bool) { self.isSmoothed = isSmoothed }

  package mutating func measure(_ snapshot: ProgressSnapshot) {
    guard let start else {
      let seconds = snapshot.elapsed.inSeconds
      perSecond = seconds > 0 ? Double(snapshot.settled - snapshot.settledBefore) / seconds : 0
      self.start = (elapsed: snapshot.elapsed, settled: snapshot.settled)
      return
    }
    let seconds = (snapshot.elapsed - start.elapsed).inSeconds
    guard seconds >= 0.5 else { return }
    let measured = Double(snapshot.settled - start.settled) / seconds
    perSecond = isSmoothed ? perSecond * 0.5 + measured * 0.5 : measured
    self.start = (elapsed: snapshot.elapsed, settled: snapshot.settled)
  }

  /// Nil where it is unknown: at the beginning, at the end, and without progress.
  package func secondsLeft(_ snapshot: ProgressSnapshot) -> Double? {
    guard let fraction = snapshot.fraction, fraction < 1, snapshot.elapsed >= .seconds(1), perSecond >= 0.5 else {
      return nil
    }
    let done = fraction - snapshot.fractionBefore
    return done >= 0.005 ? snapshot.elapsed.inSeconds * (1 - fraction) / done : nil
  }
}
