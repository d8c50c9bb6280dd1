internal import PushStore
internal import Support
internal import Testing

@Suite("The bridge's part of the store")
struct BridgeStoreTests {
  private static let run = StoredRunID(high: 7, low: 8)

  private func frames(
    _ connection: UInt64, position: Int64, firstFrame: UInt64, line: UInt32, count: Int
  )
    -> ForwardedFrames
  {
    ForwardedFrames(
      app: "news", client: "c", position: position, connection: connection, firstFrame: firstFrame, run: Self.run,
      firstLine: line, digests: [UInt8](repeating: UInt8(line), count: 16 * count), at: StoreInstant(milliseconds: 5000)
    )
  }

  @Test("frames come back with their outcomes, unless their connection has ended")
  func frames() async throws {
    let place = try Workplace()
    let store = try SQLiteStore(path: place.path("store.db"))
    var changes = IntakeChanges()
    changes.began.append(IntakeChanges.Began(run: Self.run, app: "news", at: StoreInstant(milliseconds: 1)))
    changes.bridge.add(frames(1, position: 0, firstFrame: 0, line: 1, count: 4))
    // These follow at once: they become one row.
    changes.bridge.add(frames(1, position: 4, firstFrame: 4, line: 5, count: 2))
    changes.bridge.add(frames(2, position: 6, firstFrame: 0, line: 7, count: 2))
    changes.accepted.append(IntakeChanges.Accepted(run: Self.run, lines: 2...3, confirmation: "confirmed"))
    changes.notAccepted.append(
      IntakeChanges.NotAccepted(
        notification: StoredNotificationID(run: Self.run, line: 4), state: "rejected", detail: "400 BadDeviceToken"))
    changes.bridge.ended.append(EndedConnection(connection: 1, from: 3, at: StoreInstant(milliseconds: 5000)))
    changes.bridge.ended.append(EndedConnection(connection: 2, from: nil, at: StoreInstant(milliseconds: 5000)))
    changes.bridge.alreadyDelivered["news"] = 3
    try store.write(changes)
    try store.write(changes)
    let found = try await store.forwardedFrames(since: StoreInstant(milliseconds: 5000))
    #expect(found.map(\.frames.count) == [6, 2])
    #expect(found.map(\.from) == [3, .max])
    #expect(found.first?.acceptedLines == [2...3])
    #expect(found.first?.notAccepted.keys.sorted() == [4])
    #expect(try await store.forwardedFrames(since: StoreInstant(milliseconds: 5001)).isEmpty)
    #expect(try await store.alreadyDelivered(app: "news") == 6)
    try await store.forgetForwarded(before: StoreInstant(milliseconds: 5001))
    #expect(try await store.forwardedFrames(since: StoreInstant(milliseconds: 0)).isEmpty)
  }

  @Test("as many frames of a client are kept as it may have")
  func bounded() async throws {
    let place = try Workplace()
    let store = try SQLiteStore(path: place.path("store.db"))
    for index in 0..<10 as Range<Int64> {
      var changes = IntakeChanges()
      changes.bridge.countLimit = 30
      changes.bridge.add(
        frames(1, position: index * 10, firstFrame: UInt64(index) * 10, line: UInt32(index) * 10 + 1, count: 10))
      try store.write(changes)
    }
    let found = try await store.forwardedFrames(since: StoreInstant(milliseconds: 0))
    #expect(found.map(\.frames.position) == [60, 70, 80, 90])
  }

  @Test("feedback is handed out from where the last client was, without devices that came back")
  func feedback() async throws {
    let place = try Workplace()
    let store = try SQLiteStore(path: place.path("store.db"))
    var changes = IntakeChanges()
    for token in 1...3 as ClosedRange<UInt8> {
      changes.gone.append(
        StoredGoneDevice(
          app: "news", token: [token], since: StoreInstant(milliseconds: 1000),
          foundAt: StoreInstant(milliseconds: 2000)
        ))
    }
    try store.write(changes)
    let registration = DeviceRegistration(
      token: [2], newID: StoredUUID(high: 1, low: 1), registeredAt: StoreInstant(milliseconds: 3000))
    _ = try await store.register(registration, app: "news")
    let devices = try await store.undeliveredFeedback(app: "news", after: 0, limit: 10)
    #expect(devices.map(\.token) == [[1], [3]])
    try await store.setFeedbackCursor(app: "news", to: try #require(devices.first).number)
    let cursor = try await store.feedbackCursor(app: "news")
    #expect(try await store.undeliveredFeedback(app: "news", after: cursor, limit: 10).map(\.token) == [[3]])
    #expect(try await store.undeliveredFeedback(app: "other", after: 0, limit: 10).isEmpty)
  }
}
