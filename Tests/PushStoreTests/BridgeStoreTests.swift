internal import PushStore
internal import PushStoreSQLite
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

  /// The run begins, and the first connection's first four frames are forwarded.
  private var firstFrames: IntakeChanges {
    var changes = IntakeChanges()
    changes.began.append((run: Self.run, app: "news", at: StoreInstant(milliseconds: 1)))
    changes.bridge.add(frames(1, position: 0, firstFrame: 0, line: 1, count: 4))
    return changes
  }

  @Test("frames come back with their outcomes, unless their connection has ended", arguments: StoreKind.allCases)
  func frames(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    var changes = firstFrames
    // These follow at once: they become one row.
    changes.bridge.add(frames(1, position: 4, firstFrame: 4, line: 5, count: 2))
    changes.bridge.add(frames(2, position: 6, firstFrame: 0, line: 7, count: 2))
    changes.accepted.append((run: Self.run, lines: 2...3, confirmation: "confirmed"))
    changes.notAccepted.append(
      (notification: StoredNotificationID(run: Self.run, line: 4), state: "rejected", detail: "400 BadDeviceToken"))
    changes.bridge.ended.append(
      EndedConnection(connection: 1, from: 3, recentFrom: nil, at: StoreInstant(milliseconds: 5000)))
    changes.bridge.ended.append(
      EndedConnection(connection: 2, from: nil, recentFrom: 5, at: StoreInstant(milliseconds: 5000)))
    changes.bridge.addAlreadyDelivered(1, app: "news", at: StoreInstant(milliseconds: 6000))
    changes.bridge.addAlreadyDelivered(2, app: "news", at: StoreInstant(milliseconds: 7000))
    try store.write(changes)
    try store.write(changes)
    let found = try await store.forwardedFrames(since: StoreInstant(milliseconds: 5000))
    #expect(found.map(\.frames.count) == [6, 2])
    #expect(found.allSatisfy { $0.answeredBy == nil })
    #expect(found.map(\.end?.from) == [3, nil])
    #expect(found.map(\.end?.recentFrom) == [nil, 5])
    #expect(found.first?.acceptedLines == [2...3])
    #expect(found.first?.notAccepted.keys.sorted() == [4])
    let alreadyDelivered = try await store.alreadyDelivered(app: "news")
    #expect(alreadyDelivered.count == 6)
    #expect(alreadyDelivered.last == StoreInstant(milliseconds: 7000))
    #expect(try await store.alreadyDelivered(app: "other").last == nil)
  }

  @Test("frames stay until their run has ended, and then as long as they may come again", arguments: StoreKind.allCases)
  func age(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    var changes = firstFrames
    changes.bridge.ended.append(
      EndedConnection(connection: 1, from: 3, recentFrom: nil, at: StoreInstant(milliseconds: 5000)))
    try store.write(changes)
    // The service is away: nothing has an answer, and it does not matter how long ago it came.
    try await store.forgetForwarded(before: StoreInstant(milliseconds: 900_000), life: nil)
    let waiting = try await store.forwardedFrames(since: StoreInstant(milliseconds: 900_000))
    #expect(waiting.map(\.end?.from) == [3])
    var later = IntakeChanges()
    later.ended.append((run: Self.run, at: StoreInstant(milliseconds: 900_000)))
    try store.write(later)
    try await store.forgetForwarded(before: StoreInstant(milliseconds: 900_000), life: nil)
    let answered = try await store.forwardedFrames(since: StoreInstant(milliseconds: 900_000))
    #expect(answered.map(\.answeredBy) == [StoreInstant(milliseconds: 900_000)])
    #expect(answered.map(\.end?.from) == [3])
    #expect(try await store.forwardedFrames(since: StoreInstant(milliseconds: 900_001)).isEmpty)
    try await store.forgetForwarded(before: StoreInstant(milliseconds: 900_001), life: nil)
    #expect(try await store.forwardedFrames(since: StoreInstant(milliseconds: 0)).isEmpty)
  }

  @Test(
    "frames that were recognised say so, and the last sign of life is a frame's or one that was noted",
    arguments: StoreKind.allCases)
  func signs(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    #expect(try await store.bridgeLife() == nil)
    var changes = firstFrames
    var again = frames(1, position: 4, firstFrame: 4, line: 5, count: 2)
    again.isRecognised = true
    changes.bridge.add(again)
    try store.write(changes)
    let found = try await store.forwardedFrames(since: StoreInstant(milliseconds: 0))
    #expect(found.map(\.frames.isRecognised) == [false, true])
    #expect(try await store.bridgeLife() == BridgeLife(lastSign: StoreInstant(milliseconds: 5000), pause: 0))
    try await store.forgetForwarded(
      before: StoreInstant(milliseconds: 0), life: BridgeLife(lastSign: StoreInstant(milliseconds: 9000), pause: 70))
    #expect(try await store.bridgeLife() == BridgeLife(lastSign: StoreInstant(milliseconds: 9000), pause: 70))
  }

  @Test(
    "of a connection whose process was killed, the process's last sign of life is kept", arguments: StoreKind.allCases)
  func killed(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    var changes = firstFrames
    changes.bridge.ended = [
      EndedConnection(
        connection: 1, from: nil, recentFrom: nil, at: StoreInstant(milliseconds: 7000),
        lastSign: StoreInstant(milliseconds: 6000))
    ]
    try store.write(changes)
    let found = try await store.forwardedFrames(since: StoreInstant(milliseconds: 0))
    #expect(found.map(\.end?.lastSign) == [StoreInstant(milliseconds: 6000)])
  }

  @Test("as many frames of a client are kept as it may have", arguments: StoreKind.allCases)
  func bounded(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
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

  @Test(
    "feedback is handed out from where the last client was, without devices that came back",
    arguments: StoreKind.allCases)
  func feedback(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
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
    let last = try await store.lastFeedback(app: "news")
    let devices = try await store.undeliveredFeedback(app: "news", after: 0, through: last, limit: 10)
    #expect(devices.map(\.token) == [[1], [3]])
    try await store.setFeedbackCursor(app: "news", to: try #require(devices.first).number)
    let cursor = try await store.feedbackCursor(app: "news")
    let rest = try await store.undeliveredFeedback(app: "news", after: cursor, through: last, limit: 10)
    #expect(rest.map(\.token) == [[3]])
    #expect(try await store.undeliveredFeedback(app: "other", after: 0, through: last, limit: 10).isEmpty)
    #expect(try await store.lastFeedback(app: "other") == 0)
  }

  @Test("each device is listed once, as it was found last, in any pages", arguments: [1, 3, 10], StoreKind.allCases)
  func eachDeviceOnce(limit: Int, kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    func find(_ tokens: [UInt8], at milliseconds: Int64) throws {
      var changes = IntakeChanges()
      changes.gone = tokens.map {
        StoredGoneDevice(
          app: "news", token: [$0], since: StoreInstant(milliseconds: milliseconds),
          foundAt: StoreInstant(milliseconds: 9000))
      }
      try store.write(changes)
    }
    try find([1, 1, 2, 3, 1, 4, 2], at: 1000)
    try find([5, 1], at: 2000)
    let last = try await store.lastFeedback(app: "news")
    var found: [StoredGoneDevice] = []
    var cursor: Int64 = 0
    while true {
      let page = try await store.undeliveredFeedback(app: "news", after: cursor, through: last, limit: limit)
      guard let end = page.last else { break }
      found += page
      cursor = end.number
      // Meanwhile one of them is found again: that is for the next reader.
      try find([1, 3], at: 3000)
    }
    #expect(found.map(\.token) == [[3], [4], [2], [5], [1]])
    #expect(found.map(\.since?.milliseconds) == [1000, 1000, 1000, 2000, 2000])
    let next = try await store.lastFeedback(app: "news")
    let later = try await store.undeliveredFeedback(app: "news", after: last, through: next, limit: 10)
    #expect(later.map(\.token) == [[1], [3]])
  }
}
