/// The keys of the control interface.
package protocol KeyRecords: Sendable {
  func add(_ key: StoredKey) async throws(StoreError)
  /// Oldest first, revoked ones included.
  func keys() async throws(StoreError) -> [StoredKey]
  /// - Returns: false if there is none, or it was revoked before.
  func revokeKey(_ id: String, at instant: StoreInstant) async throws(StoreError) -> Bool
  /// When keys were last used.
  func noteUse(of keys: [String: StoreInstant]) async throws(StoreError)
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
