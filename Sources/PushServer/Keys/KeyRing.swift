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
  let reading: UInt64

  init(_ key: StoredKey, reading: UInt64 = 0) {
    keyID = key.id
    self.reading = reading
    scopes = Set(key.scopes)
    reach = key.reach
  }

  func may(_ scope: Scope) -> Bool { scopes.contains(scope.rawValue) || scopes.contains(Scope.admin.rawValue) }
  var seesAllApps: Bool { reach == .all }
  func sees(app: String) -> Bool { reach.contains(app) }
}

/// The keys of the store, read again because another process can make and revoke them.
final class KeyRing: Sendable {
  private struct Known: Sendable {
    let key: StoredKey
    let caller: Caller
  }

  private struct State {
    var keys: [String: Known] = [:]
    /// When the reading that they are from began. Nil: they must be read before they count again.
    var readAt: Instant?
    /// When a reading last began, whatever became of it.
    var begunAt: Instant?
    /// The last reading found the store away.
    var isAway = false
    /// The number of the last reading.
    var reading: UInt64 = 0
    /// How often this process has made or revoked a key.
    var changeCount = 0
    /// Not yet in the store.
    var uses: [String: StoreInstant] = [:]

    enum Step {
      case `is`(Known?)
      case wait(Duration)
      case read(changeCount: Int)
    }

    mutating func next(_ id: String, arrival: Instant, now: Instant) -> Step {
      if let readAt {
        if let known = keys[id] {
          if now.since(readAt) < KeyRing.age { return .is(known) }
          // One request after the other finds out whether it is back.
          if isAway, now.since(readAt) < KeyRing.awayAge, let begunAt, now.since(begunAt) < KeyRing.awayPause {
            return .is(known)
          }
        } else if readAt >= arrival {
          return .is(nil)
        }
      }
      if keys[id] == nil, let begunAt, now.since(begunAt) < KeyRing.missAge {
        return .wait(KeyRing.missAge - now.since(begunAt))
      }
      begunAt = now
      return .read(changeCount: changeCount)
    }

    /// The store is away. What was read lately counts for a while, unless it was changed since.
    mutating func lack(_ id: String, now: Instant) -> Known? {
      isAway = true
      guard let readAt, now.since(readAt) < KeyRing.awayAge else { return nil }
      return keys[id]
    }

    mutating func adopt(_ keys: [StoredKey], begunAt: Instant, changeCount: Int) {
      isAway = false
      if let readAt, readAt > begunAt { return }
      reading += 1
      let reading = reading
      let known = keys.map { ($0.id, Known(key: $0, caller: Caller($0, reading: reading))) }
      self.keys = Dictionary(known) { _, last in last }
      // What this process has changed meanwhile may not be among them.
      readAt = self.changeCount == changeCount ? begunAt : nil
    }
  }

  let clock: any ServiceClock
  private let read: @Sendable () async throws(StoreError) -> [StoredKey]
  /// How many services share the keys and their rates.
  private let serviceCount: @Sendable () -> Int
  /// Nil: keys may ask as often as they like.
  private let rates: Mutex<KeyRates?>
  private let state = Mutex(State())

  /// How long a revoked key still works.
  private static let age = Duration.seconds(1)
  /// The same while the store is away.
  private static let awayAge = Duration.seconds(300)
  /// Longer than the store takes to say that it is away.
  private static let awayPause = Duration.seconds(6)
  /// The least time between readings for unknown keys. Their requests wait for the next one, since
  /// another process can have made the key a moment ago.
  private static let missAge = Duration.milliseconds(50)

  /// - Parameters:
  ///   - rate: requests of one key in a second, at all services together; nil: any number.
  ///   - read: all keys of the store.
  init(
    rate: Double? = nil, clock: any ServiceClock = MachineClock(), serviceCount: @escaping @Sendable () -> Int = { 1 },
    read: @escaping @Sendable () async throws(StoreError) -> [StoredKey]
  ) {
    (self.clock, self.serviceCount, self.read) = (clock, serviceCount, read)
    rates = Mutex(rate.map(KeyRates.init))
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
    state.withLock { $0.uses[key.id] = clock.now }
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
    state.withLock { $0.uses[id] = clock.now }
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

  /// Whether ``current(_:)`` would ask the same reading of the keys.
  func isPresent(_ reading: UInt64) -> Bool {
    let (readAt, last) = state.withLock { ($0.readAt, $0.reading) }
    return last == reading && readAt.map { clock.uptime.since($0) < Self.age } ?? false
  }

  /// - Returns: nil only if a reading that began later than the call did not have the key.
  private func known(_ id: String) async throws -> Known? {
    let arrival = clock.uptime
    while true {
      let now = clock.uptime
      switch state.withLock({ $0.next(id, arrival: arrival, now: now) }) {
      case .is(let known): return known
      case .wait(let duration): try await clock.sleep(for: duration)
      case .read(let changeCount):
        let keys: [StoredKey]
        do throws(StoreError) { keys = try await read() } catch {
          guard error.kind == .away, let known = state.withLock({ $0.lack(id, now: clock.uptime) }) else { throw error }
          return known
        }
        state.withLock { $0.adopt(keys, begunAt: now, changeCount: changeCount) }
        if let known = state.withLock({ $0.keys[id] }) { return known }
      }
    }
  }

  /// This process has made or revoked a key: that counts at once.
  func changed() {
    state.withLock { state in
      state.changeCount += 1
      state.readAt = nil
    }
  }

  /// Also uses that are not in the store yet.
  func lastUse(of key: StoredKey) -> StoreInstant? {
    [key.lastUsedAt, state.withLock { $0.uses[key.id] }].compactMap { $0 }.max()
  }

  /// When keys were used since the last call.
  func takeUses() -> [String: StoreInstant] { state.withLock { exchange(&$0.uses, with: [:]) } }
}
