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
      id: key.id, name: "test", digest: key.digest, scopes: [Scope.read.rawValue], reach: .all, createdAt: .now)
  }

  /// - Returns: the status of the refusal; nil if the key is good.
  private func refusal(of key: APIKey) async throws -> Int? {
    do {
      _ = try await ring.caller("Bearer \(key.text)")
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

  @Test("a key that this process revokes while the keys are read is refused from then on")
  func revokedMeanwhile() async throws {
    let (key, other) = (APIKey.make(), APIKey.make())
    records.add(stored(key))
    records.add(stored(other))
    records.state.withLock { state in
      state.afterReading = { [records, ring] in
        records.state.withLock { $0.keys[0].revokedAt = .now }
        ring.changed()
      }
    }
    #expect(try await refusal(of: other) == nil)
    #expect(try await refusal(of: key) == 401)
  }
}
