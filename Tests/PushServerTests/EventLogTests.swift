internal import Logging
internal import PushStore
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushService

@Suite("The log of events")
struct EventLogTests {
  private static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

  /// The actions in the store, the oldest first.
  private static func actions(_ store: SimulatedStore) async throws -> [String] {
    try await store.events(of: .all, before: nil, limit: 10_000).reversed().map(\.action)
  }

  @Test("while the store is away events wait in their order, the last thousand; what was lost is said")
  func away() async throws {
    let store = SimulatedStore(StoreDisk())
    let isAway = Mutex(true)
    let log = EventLog(store: store, clock: MachineClock(), logger: Self.logger) { isAway.withLock { $0 } }
    for number in 0..<1_003 {
      if number % 2 == 0 {
        log.note("event \(number)", reason: "a\0b")
      } else {
        await log.record(
          .action, "event \(number)", app: "news", subject: nil, key: "k", address: "::1", reason: nil)
      }
    }
    await log.write()
    #expect(try await Self.actions(store).isEmpty)
    isAway.withLock { $0 = false }
    for _ in 0..<2 { await log.write() }
    #expect(try await Self.actions(store) == (3..<1_003).map { "event \($0)" } + ["events were lost"])
    let newest = try await store.events(of: .all, before: nil, limit: 2)
    #expect(newest[0].reason?.hasPrefix("3 were too many") == true)
    #expect(newest[1].reason == "a\u{fffd}b")
    // What was done is there when the call returns.
    await log.record(.action, "done", app: nil, subject: nil, key: nil, address: nil, reason: nil)
    #expect(try await Self.actions(store).last == "done")
  }

  @Test("what the store never takes holds up nothing that comes later")
  func refused() async throws {
    let disk = StoreDisk()
    let broken = SimulatedStore(disk)
    let log = EventLog(store: broken, clock: MachineClock(), logger: Self.logger)
    broken.kill()
    log.note("refused")
    await log.write()
    #expect(try await Self.actions(SimulatedStore(disk)).isEmpty)
    await log.write()
    #expect(log.waitingCount == 0)
  }
}
