package import PushEngine
package import PushWire

/// Keeps the outcomes of notifications that a service accepted, for later requests.
///
/// Called from the lanes' loops and the readers, also at the same time; every call returns soon and
/// keeps its values in memory. They must be durable before the journal records them as settled:
/// ``Deployment/recordIntake(with:)`` calls ``makeDurable()`` for that.
package protocol IntakeRecorder: Sendable {
  /// A run begins, or resumes after a restart.
  ///
  /// - Parameters:
  ///   - isBridge: the bridge has taken its notifications in.
  ///   - channel: they are broadcasts to it; nil: they are to devices.
  func began(_ run: IntakeRunID, app: String, isBridge: Bool, channel: String?)

  /// Everything up to a line of the run is in the journal.
  func acknowledged(_ run: IntakeRunID, through line: UInt64)

  /// - Parameter entries: notifications that were accepted together.
  func accepted(_ run: IntakeRunID, _ entries: OutcomeEntries, _ confirmation: Confirmation)

  /// - Parameters:
  ///   - token: in hexadecimal digits.
  ///   - goneSince: of a device that no longer has the app: when the service last found that, in
  ///     milliseconds since 1970.
  ///   - isDoubted: another copy of it may have been sent.
  func notAccepted(
    _ run: IntakeRunID, app: String, line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?,
    isDoubted: Bool)

  /// - Parameter lines: the lines of notifications that may have arrived and are sent again, so
  ///   that one more copy of each may arrive. Known before their outcome.
  func doubted(_ run: IntakeRunID, lines: [UInt64])

  /// Everything in the run has its outcome, and nothing comes any more.
  func ended(_ run: IntakeRunID)

  /// Makes everything durable that was reported so far. Called on threads that may block, also at
  /// the same time.
  func makeDurable() throws(UnsyncedList)

  /// Makes durable what must be known of notifications before the journal has them.
  func makeIntakeDurable() throws(UnsyncedList)

  /// The same, and what lists have about entries of audiences that are not sent.
  func makePassedDurable() throws(UnsyncedList)
}
