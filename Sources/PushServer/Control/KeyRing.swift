internal import Hummingbird
internal import PushStore
internal import Synchronization

/// Whoever made a request.
struct Caller: Sendable {
  let keyID: String
  private let scopes: Set<String>
  private let apps: Set<String>

  init(_ key: StoredKey) {
    keyID = key.id
    scopes = Set(key.scopes)
    apps = Set(key.apps)
  }

  func may(_ scope: Scope) -> Bool { scopes.contains(scope.rawValue) || scopes.contains(Scope.admin.rawValue) }
  func sees(app: String) -> Bool { apps.isEmpty || apps.contains(app) }
}

/// The keys of the store, read again when they may have changed: another process can make and revoke
/// them.
final class KeyRing: Sendable {
  private struct State {
    var keys: [String: StoredKey] = [:]
    var readAt: ContinuousClock.Instant?
    /// Not yet in the store.
    var uses: [String: StoreInstant] = [:]
  }

  private let store: any Store
  private let state = Mutex(State())

  /// A revoked key works for so long.
  private static let age = Duration.seconds(1)

  init(store: any Store) { self.store = store }

  /// - Throws: ``Problem`` with 401 without a valid key.
  func caller(_ header: String?) async throws -> Caller {
    let words = header?.split(separator: " ", maxSplits: 1)
    guard let words, words.count == 2, words[0].lowercased() == "bearer", let key = APIKey(words[1]) else {
      throw Problem(
        .unauthorized, "No key", "The request has no key.",
        action: "Send the header \"Authorization: Bearer car_…\"; \"carillon key create\" makes a key.")
    }
    guard let stored = try await stored(key.id), stored.revokedAt == nil, key.matches(stored) else {
      throw Problem(.unauthorized, "Unknown key", "The key is unknown, or was revoked.")
    }
    state.withLock { $0.uses[key.id] = .now }
    return Caller(stored)
  }

  private func stored(_ id: String) async throws -> StoredKey? {
    let now = ContinuousClock.now
    let (key, isFresh) = state.withLock { state in
      (state.keys[id], state.readAt.map { now - $0 < Self.age } ?? false)
    }
    if isFresh { return key }
    let keys = try await store.keys()
    return state.withLock { state in
      state.keys = Dictionary(keys.map { ($0.id, $0) }) { _, last in last }
      state.readAt = now
      return state.keys[id]
    }
  }

  /// When keys were used since the last call.
  func takeUses() -> [String: StoreInstant] { state.withLock { exchange(&$0.uses, with: [:]) } }
}
