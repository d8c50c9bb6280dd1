package import Carillon
internal import PushService
package import PushStore
internal import PushStoreSQLite

/// Makes, lists and revokes keys, with or without a running service.
package struct KeyStore: Sendable {
  /// A key as it is listed.
  package struct Entry: Sendable {
    package var id: String
    package var name: String
    package var scopes: [String]
    package var reach: AppReach
    /// RFC 3339.
    package var createdAt: String
    package var lastUsedAt: String?
    package var revokedAt: String?
  }

  private let store: SQLiteStore

  /// - Parameter path: of the store.
  package init(path: String) throws(CarillonError) {
    do throws(StoreError) { store = try SQLiteStore(path: path, isVisitor: true) } catch {
      throw CarillonError(.journal, error.description)
    }
  }

  /// - Parameters:
  ///   - scopes: what it may do.
  ///   - reach: the apps that it is for.
  /// - Returns: the key. Its secret is not stored, so this is the only time that it can be seen.
  package func create(name: String, scopes: [Scope], reach: AppReach) async throws(CarillonError) -> APIKey {
    let key = APIKey.make()
    try await failing { () async throws(StoreError) in
      _ = try await store.add(
        StoredKey(
          id: key.id, name: name, digest: key.digest, scopes: scopes.map(\.rawValue), reach: reach, createdAt: .now),
        by: nil)
    }
    return key
  }

  /// Oldest first.
  package func entries() async throws(CarillonError) -> [Entry] {
    try await failing { () async throws(StoreError) in
      try await store.keys().map { key in
        Entry(
          id: key.id, name: key.name, scopes: key.scopes, reach: key.reach, createdAt: InstantText.text(key.createdAt),
          lastUsedAt: key.lastUsedAt.map(InstantText.text), revokedAt: key.revokedAt.map(InstantText.text))
      }
    }
  }

  /// - Returns: false if there is no such key, or it was revoked before.
  package func revoke(_ id: String) async throws(CarillonError) -> Bool {
    try await failing { () async throws(StoreError) in try await store.revokeKey(id, at: .now) }
  }

  package func close() throws(CarillonError) {
    do throws(StoreError) { try store.close() } catch { throw CarillonError(.journal, error.description) }
  }

  private func failing<Value>(
    _ body: () async throws(StoreError) -> Value
  ) async throws(CarillonError) -> Value {
    do throws(StoreError) { return try await body() } catch { throw CarillonError(.journal, error.description) }
  }
}
