package import Carillon
package import PushWire

/// Hears of outcomes when they come, beside the ``OutcomeRecorder`` that keeps them. Called on the
/// lanes' loops, also at the same time; every call returns soon.
package protocol IntakeWatcher: Sendable {
  func accepted(_ run: IntakeRunID, lines: [UInt64])
  func notAccepted(_ run: IntakeRunID, line: UInt64, outcome: Outcome)
  /// Everything in the run has its outcome.
  func ended(_ run: IntakeRunID)
}
