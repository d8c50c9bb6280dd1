internal import PushService
internal import PushStore
internal import PushWire
internal import Synchronization

/// The store's values of one kind, by identifier. All of them are read at once, and again, because
/// another process can change them: they must be few.
final class StoreReading<Value: Sendable>: Sendable {
  struct Found: Sendable {
    let value: Value
    /// The number of the reading that had it, from 1.
    let reading: UInt64
  }

  private struct State {
    var values: [String: Value] = [:]
    /// When the reading that they are from began. Nil: they must be read before they count again.
    var readAt: Instant?
    /// When a reading last began, whatever became of it.
    var begunAt: Instant?
    /// The last reading found the store away.
    var isAway = false
    /// The number of that reading.
    var reading: UInt64 = 0
    /// How often this process has changed a value.
    var changeCount = 0

    enum Step {
      case `is`(Found?)
      case wait(Duration)
      case read(changeCount: Int)
    }

    func found(_ id: String) -> Found? { values[id].map { Found(value: $0, reading: reading) } }

    mutating func next(_ id: String, arrival: Instant, now: Instant) -> Step {
      if let readAt {
        if let value = found(id) {
          if now.since(readAt) < Age.limit { return .is(value) }
          // One request after the other finds out whether it is back.
          if isAway, now.since(readAt) < Age.awayLimit, let begunAt, now.since(begunAt) < Age.awayPause {
            return .is(value)
          }
        } else if readAt >= arrival {
          return .is(nil)
        }
      }
      if values[id] == nil, let begunAt, now.since(begunAt) < Age.missPause {
        return .wait(Age.missPause - now.since(begunAt))
      }
      begunAt = now
      return .read(changeCount: changeCount)
    }

    /// The store is away. What was read lately counts for a while, unless it was changed since.
    mutating func lack(_ id: String, now: Instant) -> Found? {
      isAway = true
      guard let readAt, now.since(readAt) < Age.awayLimit else { return nil }
      return found(id)
    }

    mutating func adopt(_ values: [String: Value], begunAt: Instant, changeCount: Int) {
      isAway = false
      if let readAt, readAt > begunAt { return }
      reading += 1
      self.values = values
      // What this process has changed meanwhile may not be among them.
      readAt = self.changeCount == changeCount ? begunAt : nil
    }
  }

  private let clock: any ServiceClock
  private let read: @Sendable () async throws(StoreError) -> [String: Value]
  private let state = Mutex(State())

  init(clock: any ServiceClock, read: @escaping @Sendable () async throws(StoreError) -> [String: Value]) {
    (self.clock, self.read) = (clock, read)
  }

  /// - Returns: nil only if a reading that began later than the call did not have the value.
  func find(_ id: String) async throws -> Found? {
    let arrival = clock.uptime
    while true {
      let now = clock.uptime
      switch state.withLock({ $0.next(id, arrival: arrival, now: now) }) {
      case .is(let found): return found
      case .wait(let duration): try await clock.sleep(for: duration)
      case .read(let changeCount):
        let values: [String: Value]
        do throws(StoreError) { values = try await read() } catch {
          guard error.kind == .away, let found = state.withLock({ $0.lack(id, now: clock.uptime) }) else { throw error }
          return found
        }
        state.withLock { $0.adopt(values, begunAt: now, changeCount: changeCount) }
        if let found = state.withLock({ $0.found(id) }) { return found }
      }
    }
  }

  /// Whether ``find(_:)`` would give what the reading of this number had.
  func isPresent(_ reading: UInt64) -> Bool {
    let (readAt, last) = state.withLock { ($0.readAt, $0.reading) }
    return last == reading && readAt.map { clock.uptime.since($0) < Age.limit } ?? false
  }

  /// This process has changed a value: that counts at once.
  func changed() {
    state.withLock { state in
      state.changeCount += 1
      state.readAt = nil
    }
  }
}

private enum Age {
  /// How long what another process has changed still counts.
  static let limit = Duration.seconds(1)
  /// The same while the store is away.
  static let awayLimit = Duration.seconds(300)
  /// Longer than the store takes to say that it is away.
  static let awayPause = Duration.seconds(6)
  /// The least time between readings for unknown values. Their requests wait for the next one,
  /// since another process can have made the value a moment ago.
  static let missPause = Duration.milliseconds(50)
}
