internal import Carillon
internal import PushWire

/// Measures the rate of the last second or so: that of the whole run would hide that it has
/// stopped.
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
