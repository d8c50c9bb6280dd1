internal import Hummingbird
internal import PushService
internal import PushStore
internal import PushWire
internal import Synchronization

struct Caller: Sendable {
  let keyID: String
  private let scopes: Set<String>
  let reach: AppReach
  /// Which reading of the keys said so; see ``KeyRing/isPresent(_:)``. 0: none.
  var reading: UInt64 = 0

  init(_ key: StoredKey) {
    keyID = key.id
    scopes = Set(key.scopes)
    reach = key.reach
  }

  func may(_ scope: Scope) -> Bool { scopes.contains(scope.rawValue) || scopes.contains(Scope.admin.rawValue) }
  var seesAllApps: Bool { reach == .all }
  func sees(app: String) -> Bool { reach.contains(app) }
}

/// The keys of the store.
final class KeyRing: Sendable {
  private struct Known: Sendable {
    let key: StoredKey
    var caller: Caller
  }

  let clock: any ServiceClock
  private let keys: StoreReading<Known>
  /// How many services share the keys and their rates.
  private let serviceCount: @Sendable () -> Int
  /// Nil: keys may ask as often as they like.
  private let rates: Mutex<KeyRates?>
  /// When keys were used, as far as that is not in the store yet.
  private let uses = Mutex<[String: StoreInstant]>([:])

  /// - Parameters:
  ///   - rate: requests of one key in a second, at all services together; nil: any number.
  ///   - read: all keys of the store.
  init(
    rate: Double? = nil, clock: any ServiceClock = MachineClock(), serviceCount: @escaping @Sendable () -> Int = { 1 },
    read: @escaping @Sendable () async throws(StoreError) -> [StoredKey]
  ) {
    (self.clock, self.serviceCount) = (clock, serviceCount)
    rates = Mutex(rate.map(KeyRates.init))
    keys = StoreReading(clock: clock) { () async throws(StoreError) in
      Dictionary(try await read().map { ($0.id, Known(key: $0, caller: Caller($0))) }) { _, last in last }
    }
  }

  /// - Throws: ``Problem`` with 401 without a valid key, and with 429 for one that asks too often.
  func caller(_ header: String?) async throws -> Caller {
    let words = header?.split(separator: " ", maxSplits: 1)
    guard let words, words.count == 2, words[0].lowercased() == "bearer", let key = APIKey(words[1]) else {
      throw Problem(
        .unauthorized, "No key", "The request has no key.",
        action: "Send the header \"Authorization: Bearer car_…\"; \"carillon key create\" makes a key.")
    }
    guard let known = try await known(key.id), known.key.revokedAt == nil, key.matches(known.key) else {
      throw Problem(.unauthorized, "Unknown key", "The key is unknown, or was revoked.")
    }
    uses.withLock { $0[key.id] = clock.now }
    try demandRate(key.id)
    return known.caller
  }

  private func demandRate(_ id: String) throws {
    let now = clock.uptime
    let count = serviceCount()
    guard let next = rates.withLock({ $0?.admit(id, among: count, now: now) }) else { return }
    throw Problem(
      .tooManyRequests, "Too many requests", "The key makes more requests than the service allows.",
      action: "Send notifications in batches, or raise rate-limit of the service's api.",
      retryAfter: max(1, Int(next.since(now).inSeconds.rounded(.up))))
  }

  /// The key of someone who has shown it before; nil if it was revoked since.
  func key(_ id: String) async throws -> StoredKey? {
    guard let known = try await known(id), known.key.revokedAt == nil else { return nil }
    uses.withLock { $0[id] = clock.now }
    return known.key
  }

  /// The caller of a request that lasts, as its key is at present.
  ///
  /// - Throws: ``Problem`` with 401 if it was revoked.
  func current(_ id: String) async throws -> Caller {
    guard let known = try await known(id), known.key.revokedAt == nil else {
      throw Problem(.unauthorized, "Unknown key", "The key was revoked while the request lasted.")
    }
    return known.caller
  }

  private func known(_ id: String) async throws -> Known? {
    guard let found = try await keys.find(id) else { return nil }
    var known = found.value
    known.caller.reading = found.reading
    return known
  }

  /// Whether ``current(_:)`` would ask the same reading of the keys.
  func isPresent(_ reading: UInt64) -> Bool { keys.isPresent(reading) }

  /// This process has made or revoked a key: that counts at once.
  func changed() { keys.changed() }

  /// Also uses that are not in the store yet.
  func lastUse(of key: StoredKey) -> StoreInstant? {
    [key.lastUsedAt, uses.withLock { $0[key.id] }].compactMap { $0 }.max()
  }

  /// When keys were used since the last call.
  func takeUses() -> [String: StoreInstant] { uses.withLock { exchange(&$0, with: [:]) } }
}
