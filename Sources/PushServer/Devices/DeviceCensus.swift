internal import PushService
internal import PushStore
internal import PushWire
internal import Synchronization

/// Counts the devices of apps: one app at a time, and none again within a minute, however many ask.
final class DeviceCensus: Sendable {
  struct Result: Sendable {
    let counts: DeviceCounts
    let at: StoreInstant
    /// The last of the days that are counted, since 1970.
    var lastDay: Int64 { at.day }
  }

  private struct State {
    var known: [String: (result: Result, at: Instant)] = [:]
    var isCounting = false
  }

  private enum Step {
    case known(Result)
    case wait
    case count
  }

  private let store: any Store
  private let clock: any ServiceClock
  private let state = Mutex(State())

  static let dayCount = 30
  private static let age = Duration.seconds(60)
  /// Devices of one read.
  private static let portion = 50_000
  /// Between looks whether another one has finished.
  private static let pause = Duration.milliseconds(100)

  init(store: any Store, clock: any ServiceClock) { (self.store, self.clock) = (store, clock) }

  func result(of app: String) async throws -> Result {
    while true {
      switch next(app) {
      case .known(let result): return result
      case .wait: try await clock.sleep(for: Self.pause)
      case .count:
        defer { state.withLock { $0.isCounting = false } }
        let result = try await count(app)
        state.withLock { $0.known[app] = (result, clock.uptime) }
        return result
      }
    }
  }

  private func next(_ app: String) -> Step {
    let now = clock.uptime
    return state.withLock { state in
      state.known = state.known.filter { now.since($0.value.at) < Self.age }
      if let known = state.known[app] { return .known(known.result) }
      if state.isCounting { return .wait }
      state.isCounting = true
      return .count
    }
  }

  private func count(_ app: String) async throws -> Result {
    let now = clock.now
    let first = StoreInstant(day: now.day - Int64(Self.dayCount) + 1)
    var counts = DeviceCounts()
    repeat {
      try Task.checkCancellation()
      counts.add(try await store.deviceCounts(app: app, after: counts.end ?? 0, limit: Self.portion, from: first))
    } while counts.end != nil
    return Result(counts: counts, at: now)
  }
}

extension DeviceCensus.Result {
  /// The most languages and tags that an answer has.
  private static let listLimit = 100

  /// Those that most devices have first.
  var languages: [(name: String, count: Int)] {
    Self.list(counts.languages.compactMap { name, count in name.map { ($0, count) } })
  }
  var tags: [(name: String, count: Int)] { Self.list(counts.tags.map { ($0.key, $0.value) }) }
  var withoutLanguage: Int { counts.languages[nil] ?? 0 }

  private static func list(_ found: [(name: String, count: Int)]) -> [(name: String, count: Int)] {
    Array(found.sorted { ($1.count, $0.name) < ($0.count, $1.name) }.prefix(listLimit))
  }

  /// The newest first, each with its date in UTC.
  var days: [(date: String, counts: DeviceCounts.Day)] {
    (0..<Int64(DeviceCensus.dayCount)).map { back in
      let day = lastDay - back
      let date = InstantText.text(StoreInstant(day: day)).prefix(10)
      return (String(date), counts.days[day] ?? .init())
    }
  }
}
