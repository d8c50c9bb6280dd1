/// The apps that a key is for. All of them is a case of its own: an empty set means none.
package enum AppReach: Hashable, Sendable {
  /// Also those that are configured later.
  case all
  /// Possibly none.
  case only(Set<String>)

  package func contains(_ app: String) -> Bool {
    switch self {
    case .all: true
    case .only(let apps): apps.contains(app)
    }
  }

  /// Whether whoever has this reach may give the other one away.
  package func covers(_ other: AppReach) -> Bool {
    switch (self, other) {
    case (.all, _): true
    case (.only, .all): false
    case (.only(let own), .only(let others)): others.isSubset(of: own)
    }
  }

  /// For people: "all", "none", or the ids.
  package var text: String {
    switch self {
    case .all: "all"
    case .only(let apps): apps.isEmpty ? "none" : apps.sorted().joined(separator: " ")
    }
  }
}

/// A key of the control interface, without its secret.
package struct StoredKey: Hashable, Sendable {
  package var id: String
  package var name: String
  /// SHA-256 of the secret.
  package var digest: [UInt8]
  package var scopes: [String]
  package var reach: AppReach
  package var createdAt: StoreInstant
  package var lastUsedAt: StoreInstant?
  package var revokedAt: StoreInstant?

  package init(
    id: String, name: String, digest: [UInt8], scopes: [String], reach: AppReach, createdAt: StoreInstant,
    lastUsedAt: StoreInstant? = nil, revokedAt: StoreInstant? = nil
  ) {
    (self.id, self.name, self.digest, self.scopes, self.reach) = (id, name, digest, scopes, reach)
    (self.createdAt, self.lastUsedAt, self.revokedAt) = (createdAt, lastUsedAt, revokedAt)
  }
}

/// A browser in which somebody has shown a key.
package struct StoredSession: Hashable, Sendable {
  /// SHA-256 of what the browser has.
  package let digest: [UInt8]
  package let keyID: String
  package let expiresAt: StoreInstant

  package init(digest: [UInt8], keyID: String, expiresAt: StoreInstant) {
    (self.digest, self.keyID, self.expiresAt) = (digest, keyID, expiresAt)
  }
}
