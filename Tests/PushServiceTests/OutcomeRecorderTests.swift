internal import Carillon
internal import PushEngine
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushService
@testable internal import PushStore
@testable internal import PushStoreSQLite

struct OutcomeRecorderTests {
  private static func entries(_ line: UInt64) -> OutcomeEntries {
    OutcomeEntries(line: line, token: "abcd", goneSince: nil, isDoubted: false)
  }

  @Test("what is sent again is in the store before the journal's next record; outcomes can wait")
  func doubtPrecedesJournal() async throws {
    let place = try Workplace()
    let store = try SQLiteStore(path: place.path("store.db"))
    let recorder = OutcomeRecorder(store: store)
    let run = IntakeRunID(milliseconds: 1, random: 2)
    let notification = StoredNotificationID(run: StoredRunID(run), line: 5)
    recorder.began(run, app: "news", isBridge: false, channel: nil)
    recorder.accepted(run, Self.entries(5), .confirmed)
    try recorder.makeIntakeDurable()
    #expect(try await store.notification(notification).outcome == nil)
    recorder.doubted(run, lines: [4, 5])
    try recorder.makeIntakeDurable()
    #expect(try await store.notification(notification).isDoubted)
    try store.close()
  }

  @Test("while the store is away, the journal goes on; what it needs is in the store after a kill, once")
  func deferred() throws {
    let (disk, contents, loop) = (SimulatedDisk(), StoreDisk(), SimulatedLoop(seed: 1))
    var away = SimulatedStore.Faults()
    away.awayPerMille = 1_000
    let list = DeferredList(disk)
    let recorder = OutcomeRecorder(store: SimulatedStore(contents, loop, away), deferred: DeferredChanges(list))
    let run = IntakeRunID(milliseconds: 1, random: 2)
    recorder.began(run, app: "news", isBridge: false, channel: nil)
    recorder.accepted(run, Self.entries(5), .confirmed)
    #expect(throws: UnsyncedList.self) { try recorder.makeDurable() }
    // Of the write that is under way, and of the next one.
    recorder.doubted(run, lines: [4, 5])
    try recorder.makeIntakeDurable()
    recorder.doubted(run, lines: [5])
    try recorder.makeIntakeDurable()
    #expect(contents.contents.outcomes.copies == 0)
    let entries = try list.entries()
    #expect(entries.count == 3)

    for _ in 0..<3 {
      disk.restart()
      let next = OutcomeRecorder(store: SimulatedStore(contents), deferred: DeferredChanges(DeferredList(disk)))
      try next.restoreDeferred()
      #expect(contents.contents.outcomes.copies == 3)
      #expect(try DeferredList(disk).entries().isEmpty)
      // As if it had been killed before it cleared them.
      try DeferredList(disk).append(entries)
    }
  }

  @Test("a store from an old backup gets what was deferred, without the writes that it has lost")
  func otherStore() throws {
    let (contents, run) = (StoreDisk(), IntakeRunID(milliseconds: 1, random: 2))
    let deferred = DeferredChanges(DeferredList(SimulatedDisk()))
    var changes = IntakeChanges()
    changes.began = [(run: StoredRunID(run), app: "news", at: StoreInstant(milliseconds: 1))]
    changes.doubted = [StoredLines(run: StoredRunID(run), lines: 4...5)]
    try deferred.append([(write: 5_000_000, changes: changes)])
    let store = SimulatedStore(contents)
    try OutcomeRecorder(store: store, deferred: deferred).restoreDeferred()
    #expect(contents.contents.outcomes.copies == 2)
    #expect(store.writeCount == 1)
  }

  @Test("a store that is back has everything once, and nothing is deferred any more")
  func back() throws {
    let (disk, contents, loop) = (SimulatedDisk(), StoreDisk(), SimulatedLoop(seed: 1))
    var away = SimulatedStore.Faults()
    away.awayPerMille = 1_000
    let store = SimulatedStore(contents, loop, away)
    let list = DeferredList(disk)
    let recorder = OutcomeRecorder(store: store, deferred: DeferredChanges(list))
    let run = IntakeRunID(milliseconds: 1, random: 2)
    recorder.began(run, app: "news", isBridge: false, channel: nil)
    recorder.doubted(run, lines: [4])
    try recorder.makeIntakeDurable()
    recorder.doubted(run, lines: [5])
    try recorder.makeIntakeDurable()
    store.comeBack()
    try recorder.makeDurable()
    #expect(contents.contents.outcomes.copies == 2)
    #expect(try list.entries().isEmpty)
    recorder.doubted(run, lines: [6])
    try recorder.makeIntakeDurable()
    #expect(contents.contents.outcomes.copies == 3)
    #expect(store.writeCount == 3)
  }

  @Test("what was recorded is in the store after the call, also if the task that makes it durable was cancelled")
  func cancelledTask() async throws {
    let place = try Workplace()
    let store = try SQLiteStore(path: place.path("store.db"))
    let recorder = OutcomeRecorder(store: store)
    let run = IntakeRunID(milliseconds: 1, random: 2)
    recorder.began(run, app: "news", isBridge: false, channel: nil)
    recorder.accepted(run, Self.entries(1), .confirmed)
    let writing = Task {
      while !Task.isCancelled { await Task.yield() }
      try await recorder.makeDurableElsewhere()
    }
    writing.cancel()
    try await writing.value
    let known = try await store.notification(StoredNotificationID(run: StoredRunID(run), line: 1))
    #expect(known.outcome?.state == "accepted")
    try store.close()
  }
}
