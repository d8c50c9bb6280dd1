/// What a deployment remembers besides its journal, as use cases: values in, values out.
///
/// Nothing here assumes one process, or SQLite. Every identifier is made by the caller, so that two
/// machines can make them without having met.
package protocol Store: Sendable {
  // MARK: Keys

  func add(_ key: StoredKey) async throws(StoreError)
  /// Oldest first, revoked ones included.
  func keys() async throws(StoreError) -> [StoredKey]
  /// - Returns: false if there is none, or it was revoked before.
  func revokeKey(_ id: String, at instant: StoreInstant) async throws(StoreError) -> Bool
  /// When keys were last used.
  func noteUse(of keys: [String: StoreInstant]) async throws(StoreError)

  // MARK: What was taken in

  /// Writes all of it, or nothing. Returns when it is durable; may be called on a thread that others
  /// wait for, so it does nothing else.
  func write(_ changes: IntakeChanges) throws(StoreError)
  /// Nil if nothing is known of it.
  func outcome(of notification: StoredNotificationID) async throws(StoreError) -> StoredOutcome?
  func add(_ batch: StoredBatch) async throws(StoreError)
  func batch(_ id: StoredUUID) async throws(StoreError) -> StoredBatch?
  /// How many of the notifications have which outcome; the rest has none yet.
  func outcomes(of parts: [StoredBatch.Part]) async throws(StoreError) -> OutcomeCounts
  /// Devices that are gone, in the order in which they were found.
  ///
  /// - Parameter cursor: the last ``GoneDevice/number`` that is known; 0 from the beginning.
  func goneDevices(app: String, after cursor: Int64, limit: Int) async throws(StoreError) -> [StoredGoneDevice]
  /// Forgets what ended before an instant. Takes several short turns.
  func forget(endedBefore instant: StoreInstant) async throws(StoreError)

  func close() throws(StoreError)
}

/// Milliseconds since 1970.
package struct StoreInstant: Hashable, Sendable, Comparable {
  package let milliseconds: Int64

  package init(milliseconds: Int64) { self.milliseconds = milliseconds }

  package static func < (first: StoreInstant, second: StoreInstant) -> Bool {
    first.milliseconds < second.milliseconds
  }
}

/// The 128 bits of a UUID.
package struct StoredUUID: Hashable, Sendable {
  package let high: UInt64
  package let low: UInt64

  package init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }
}

/// A key of the control interface, without its secret.
package struct StoredKey: Hashable, Sendable {
  package var id: String
  package var name: String
  /// SHA-256 of the secret.
  package var digest: [UInt8]
  package var scopes: [String]
  /// The ids of the apps that it is for. Empty: all.
  package var apps: [String]
  package var createdAt: StoreInstant
  package var lastUsedAt: StoreInstant?
  package var revokedAt: StoreInstant?

  package init(
    id: String, name: String, digest: [UInt8], scopes: [String], apps: [String], createdAt: StoreInstant,
    lastUsedAt: StoreInstant? = nil, revokedAt: StoreInstant? = nil
  ) {
    self.id = id
    self.name = name
    self.digest = digest
    self.scopes = scopes
    self.apps = apps
    self.createdAt = createdAt
    self.lastUsedAt = lastUsedAt
    self.revokedAt = revokedAt
  }
}
