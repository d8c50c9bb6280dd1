internal import HTTPTypes
internal import PushStore
internal import Synchronization
internal import Testing

@testable internal import PushServer
@testable internal import PushService

@Suite("Keys of the control interface, as a running service knows them")
struct KeyRingTests {
  /// Keys as other processes change them.
  private final class Records: Sendable {
    struct State {
      var keys: [StoredKey] = []
      var readingCount = 0
      /// Runs once, after the next reading has its answer and before it gives it.
      var afterReading: (@Sendable () -> Void)?
    }

    let state = Mutex(State())

    func add(_ key: StoredKey) { state.withLock { $0.keys.append(key) } }

    func read() -> [StoredKey] {
      let (keys, afterReading) = state.withLock { state in
        state.readingCount += 1
        return (state.keys, exchange(&state.afterReading, with: nil))
      }
      afterReading?()
      return keys
    }
  }

  private let records = Records()
  private let ring: KeyRing

  init() { ring = KeyRing { [records] () async throws(StoreError) in records.read() } }

  private func stored(_ key: APIKey) -> StoredKey {
    StoredKey(
      id: key.id, name: "test", digest: key.digest, scopes: [Scope.read.rawValue], reach: .all,
      createdAt: StoreInstant(milliseconds: 1))
  }

  /// - Returns: the status of the refusal; nil if the key is good.
  private func refusal(of key: APIKey, by other: KeyRing? = nil) async throws -> Int? {
    do {
      _ = try await (other ?? ring).caller("Bearer \(key.text)")
      return nil
    } catch let problem as Problem {
      return problem.status.code
    }
  }

  @Test("a key that another process has just made is good, however shortly before another one was unknown")
  func made() async throws {
    for _ in 0..<5 {
      let key = APIKey.make()
      #expect(try await refusal(of: key) == 401)
      records.add(stored(key))
      #expect(try await refusal(of: key) == nil)
    }
  }

  @Test("requests with unknown keys share readings of the store")
  func flood() async throws {
    let begin = ContinuousClock.now
    try await withThrowingTaskGroup(of: Int?.self) { group in
      for _ in 0..<500 { group.addTask { try await refusal(of: APIKey.make()) } }
      for try await refusal in group { #expect(refusal == 401) }
    }
    let most = 2 + Int((ContinuousClock.now - begin) / .milliseconds(50))
    let readingCount = records.state.withLock { $0.readingCount }
    #expect(readingCount <= most, "\(readingCount) of at most \(most)")
  }

  @Test("a key that another process revokes is good for another second, and no longer")
  func revokedElsewhere() async throws {
    let (key, clock) = (APIKey.make(), ManualClock())
    let ring = KeyRing(clock: clock) { [records] () async throws(StoreError) in records.read() }
    records.add(stored(key))
    #expect(try await refusal(of: key, by: ring) == nil)
    records.state.withLock { $0.keys[0].revokedAt = clock.now }
    clock.advance(by: .milliseconds(999))
    #expect(try await refusal(of: key, by: ring) == nil)
    clock.advance(by: .milliseconds(1))
    #expect(try await refusal(of: key, by: ring) == 401)
  }

  @Test("while the store is away a key is good for five minutes, unless it was changed here; then nobody knows")
  func away() async throws {
    let (key, clock) = (APIKey.make(), ManualClock())
    let isAway = Mutex(false)
    let reads = Mutex(0)
    let ring = KeyRing(clock: clock) { [records] () async throws(StoreError) in
      reads.withLock { $0 += 1 }
      if isAway.withLock(\.self) { throw StoreError(.away, path: "db", "the database is away") }
      return records.read()
    }
    records.add(stored(key))
    #expect(try await refusal(of: key, by: ring) == nil)
    isAway.withLock { $0 = true }
    for _ in 0..<299 {
      clock.advance(by: .seconds(1))
      #expect(try await refusal(of: key, by: ring) == nil)
    }
    #expect(reads.withLock(\.self) == 51, "one reading in six seconds finds out whether it is back")
    await #expect(throws: StoreError.self, "an unknown one may have been made meanwhile") {
      try await refusal(of: APIKey.make(), by: ring)
    }
    clock.advance(by: .seconds(1))
    await #expect(throws: StoreError.self) { try await refusal(of: key, by: ring) }
    isAway.withLock { $0 = false }
    #expect(try await refusal(of: key, by: ring) == nil)
    isAway.withLock { $0 = true }
    ring.changed()
    await #expect(throws: StoreError.self) { try await refusal(of: key, by: ring) }
  }

  @Test("a request with an unknown key waits until 50 ms after the last reading")
  func unknown() async throws {
    let clock = ManualClock()
    let ring = KeyRing(clock: clock) { [records] () async throws(StoreError) in records.read() }
    #expect(try await refusal(of: APIKey.make(), by: ring) == 401)
    clock.advance(by: .milliseconds(20))
    #expect(try await refusal(of: APIKey.make(), by: ring) == 401)
    #expect(clock.sleeps == [.milliseconds(30)])
    #expect(records.state.withLock { $0.readingCount } == 2)
  }

  @Test("a key that this process revokes while the keys are read is refused from then on")
  func revokedMeanwhile() async throws {
    let (key, other) = (APIKey.make(), APIKey.make())
    records.add(stored(key))
    records.add(stored(other))
    records.state.withLock { state in
      state.afterReading = { [records, ring] in
        records.state.withLock { $0.keys[0].revokedAt = StoreInstant(milliseconds: 1) }
        ring.changed()
      }
    }
    #expect(try await refusal(of: other) == nil)
    #expect(try await refusal(of: key) == 401)
  }
}
