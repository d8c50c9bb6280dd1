package import Carillon
package import PushService
package import PushStore

/// Makes, lists and revokes keys, with or without a running service.
package struct KeyStore: Sendable {
  private let store: any Store
  private let clock: any ServiceClock

  /// - Parameter file: the configuration file.
  package init(
    _ configuration: StoreConfiguration, besides file: String, clock: any ServiceClock = MachineClock()
  ) throws(CarillonError) {
    self.clock = clock
    do throws(StoreError) { store = try configuration.open(besides: file, isVisitor: true) } catch {
      throw CarillonError(.journal, error.description)
    }
  }

  /// - Parameters:
  ///   - scopes: what it may do.
  ///   - reach: the apps that it is for.
  /// - Returns: the key. Its secret is not stored, so this is the only time that it can be seen.
  package func create(name: String, scopes: [Scope], reach: AppReach) async throws(CarillonError) -> APIKey {
    let key = APIKey.make()
    try await describingStoreErrors { () async throws(StoreError) in
      _ = try await store.add(
        StoredKey(
          id: key.id, name: name, digest: key.digest, scopes: scopes.map(\.rawValue), reach: reach,
          createdAt: clock.now), by: nil)
      await note("key created", key.id)
    }
    return key
  }

  /// Oldest first.
  package func keys() async throws(CarillonError) -> [StoredKey] {
    try await describingStoreErrors { () async throws(StoreError) in try await store.keys() }
  }

  /// - Returns: false if there is no such key, or it was revoked before.
  package func revoke(_ id: String) async throws(CarillonError) -> Bool {
    try await describingStoreErrors { () async throws(StoreError) in
      let isRevoked = try await store.revokeKey(id, at: clock.now)
      if isRevoked { await note("key revoked", id) }
      return isRevoked
    }
  }

  /// It was done, whether that can be noted or not.
  private func note(_ action: String, _ key: String) async {
    var event = StoredEvent(id: .make(at: clock.now), at: clock.now, .action, action)
    event.subject = key
    try? await store.add([event], keeping: StoredEvent.keptCount)
  }

  package func close() throws(CarillonError) {
    do throws(StoreError) { try store.close() } catch { throw CarillonError(.journal, error.description) }
  }
}

/// Does something with a store, whose errors become those of the service.
func describingStoreErrors<Value>(_ body: () async throws(StoreError) -> Value) async throws(CarillonError) -> Value {
  do throws(StoreError) { return try await body() } catch { throw CarillonError(.journal, error.description) }
}
