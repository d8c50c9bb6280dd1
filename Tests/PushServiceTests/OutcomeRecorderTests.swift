internal import Carillon
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushService
@testable internal import PushStore
@testable internal import PushStoreSQLite

struct OutcomeRecorderTests {
  @Test("what is sent again is in the store before the journal's next record; outcomes can wait")
  func doubtPrecedesJournal() async throws {
    let place = try Workplace()
    let store = try SQLiteStore(path: place.path("store.db"))
    let recorder = OutcomeRecorder(store: store)
    let run = IntakeRunID(milliseconds: 1, random: 2)
    let notification = StoredNotificationID(run: StoredRunID(run), line: 5)
    recorder.began(run, app: "news")
    recorder.accepted(run, lines: [5], .confirmed)
    try recorder.makeIntakeDurable()
    #expect(try await store.notification(notification).outcome == nil)
    recorder.doubted(run, lines: [4, 5])
    try recorder.makeIntakeDurable()
    #expect(try await store.notification(notification).isDoubted)
    try store.close()
  }

  @Test("what was recorded is in the store after the call, also if the task that makes it durable was cancelled")
  func cancelledTask() async throws {
    let place = try Workplace()
    let store = try SQLiteStore(path: place.path("store.db"))
    let recorder = OutcomeRecorder(store: store)
    let run = IntakeRunID(milliseconds: 1, random: 2)
    recorder.began(run, app: "news")
    recorder.accepted(run, lines: [1], .confirmed)
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
