internal import PushWire
internal import Synchronization

/// Adds up the counts of all HTTP/2 connections. It takes a lock for each connection, app and read,
/// never for each request.
final class ServiceLedger: Sendable {
  /// Topics come from clients, which can invent any number. Apps beyond the limit are counted
  /// together.
  static let appLimit = 4096

  private struct App {
    var truth = ServiceTruth()
    var identifiers = DuplicateFilter()
    /// When the app's first connection since the rules were set was opened.
    var firstAt: Instant?
    /// The connections before the rules were set.
    var earlierCount = 0
  }

  private struct State {
    var apps: [String: App] = [:]
    var connectionCount = 0
  }

  private let state = Mutex(State())

  /// Registers a connection. Returns its number, from 1.
  func open() -> Int {
    state.withLock { state in
      state.connectionCount += 1
      return state.connectionCount
    }
  }

  /// Adds a connection to an app. Returns its number among the app's connections since the rules
  /// were set, from 1, the name under which it is counted, and the time of the first of them.
  func join(app: String, now: Instant) -> (ordinal: Int, name: String, firstAt: Instant) {
    state.withLock { state in
      let name = state.apps[app] != nil || state.apps.count < Self.appLimit ? app : Topic.anonymous
      var entry = state.apps[name] ?? App()
      entry.truth.connections += 1
      let firstAt = entry.firstAt ?? now
      entry.firstAt = firstAt
      state.apps[name] = entry
      return (entry.truth.connections - entry.earlierCount, name, firstAt)
    }
  }

  /// The rules were replaced: those for an app's first connections, and outages, count from here
  /// on.
  func rulesReplaced() {
    state.withLock { state in
      for (name, app) in state.apps {
        state.apps[name]?.firstAt = nil
        state.apps[name]?.earlierCount = app.truth.connections
      }
    }
  }

  /// - Parameter identifiers: A hash of the `apns-id` of each accepted notification.
  func add(_ truth: ServiceTruth, identifiers: borrowing [UInt64], to app: String) {
    state.withLock { state in
      state.apps[app, default: App()].truth.add(truth)
      guard !identifiers.isEmpty else { return }
      let duplicates = state.apps[app, default: App()].identifiers.insert(identifiers)
      if duplicates > 0 { state.apps[app, default: App()].truth.duplicates += duplicates }
    }
  }

  func snapshot() -> [String: ServiceTruth] { state.withLock { $0.apps.mapValues(\.truth) } }
}

/// A set of 64-bit hashes of at most 32 MiB that drops the oldest half when it is full. Among a
/// million different identifiers, two have the same hash with a probability of 3 in 100 million.
struct DuplicateFilter {
  private static let capacity = 1 << 21

  private struct Table {
    /// Open addressing, at most half full. 0 is a free place.
    var places: [UInt64] = []
    var count = 0

    func contains(_ hash: UInt64) -> Bool {
      guard count > 0 else { return false }
      var place = Int(truncatingIfNeeded: hash) & (places.count - 1)
      while places[place] != 0 {
        if places[place] == hash { return true }
        place = (place + 1) & (places.count - 1)
      }
      return false
    }

    mutating func insert(_ hash: UInt64) {
      if count * 2 >= places.count { grow() }
      var place = Int(truncatingIfNeeded: hash) & (places.count - 1)
      while places[place] != 0 { place = (place + 1) & (places.count - 1) }
      places[place] = hash
      count += 1
    }

    private mutating func grow() {
      let old = places
      places = Array(repeating: 0, count: max(1024, old.count * 2))
      count = 0
      for hash in old where hash != 0 { insert(hash) }
    }
  }

  private var young = Table()
  private var old = Table()

  /// Inserts hashes. Returns how many were present before.
  mutating func insert(_ hashes: borrowing [UInt64]) -> Int {
    var duplicates = 0
    for index in hashes.indices {
      let hash = hashes[index] == 0 ? 1 : hashes[index]
      if young.contains(hash) || old.contains(hash) {
        duplicates += 1
        continue
      }
      if young.count >= Self.capacity / 2 {
        old = young
        young = Table()
      }
      young.insert(hash)
    }
    return duplicates
  }

  /// Mixes the two halves of an identifier.
  static func hash(_ high: UInt64, _ low: UInt64) -> UInt64 {
    var sum = (high ^ 0x9E37_79B9_7F4A_7C15) &* 0xFF51_AFD7_ED55_8CCD
    sum = (sum ^ sum >> 32 ^ low) &* 0xC4CE_B9FE_1A85_EC53
    return sum ^ sum >> 29
  }
}
