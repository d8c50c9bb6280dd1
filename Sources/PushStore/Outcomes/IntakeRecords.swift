/// Notifications that the service accepted, and their outcomes.
package protocol IntakeRecords: Sendable {
  /// Writes all of it, or nothing. Returns when it is durable; may be called on a thread that
  /// others wait for, so it does nothing else.
  func write(_ changes: IntakeChanges) throws(StoreError)
  /// Nil if nothing is known of it.
  func outcome(of notification: StoredNotificationID) async throws(StoreError) -> StoredOutcome?
  /// Whether a copy of it may have been sent.
  func isDoubted(_ notification: StoredNotificationID) async throws(StoreError) -> Bool
  func add(_ batch: StoredBatch) async throws(StoreError)
  func batch(_ id: StoredUUID) async throws(StoreError) -> StoredBatch?
  /// How many of the notifications have which outcome; the rest has none yet.
  func outcomes(of parts: [StoredBatch.Part]) async throws(StoreError) -> OutcomeCounts
  /// Devices that are gone, in the order in which they were found.
  ///
  /// - Parameter cursor: the last ``GoneDevice/number`` that is known; 0 from the beginning.
  func goneDevices(app: String, after cursor: Int64, limit: Int) async throws(StoreError) -> [StoredGoneDevice]
  /// Ends every run that no journal continues: the process that ended it was killed before it could
  /// say so here.
  func endRuns(except open: Set<StoredRunID>, at instant: StoreInstant) async throws(StoreError)
  /// Forgets the runs that ended before an instant, and batches once none of their runs is left.
  /// Takes several short turns.
  func forget(endedBefore instant: StoreInstant) async throws(StoreError)
}
