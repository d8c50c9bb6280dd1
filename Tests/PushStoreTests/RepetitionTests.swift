internal import PushStore
internal import Support
internal import Testing

@Suite("What the store is asked twice, late, or wrongly")
struct RepetitionTests {
  private static let run = StoredRunID(high: 7, low: 8)
  private static func at(_ milliseconds: Int64) -> StoreInstant { StoreInstant(milliseconds: milliseconds) }
  private static func campaign(_ number: UInt64) -> StoredCampaign {
    StoredCampaign(
      id: StoredUUID(high: 1, low: number), app: "news", state: "draft", content: Array("{}".utf8), createdAt: at(1))
  }
  private static func key(_ digest: UInt8) -> StoredKey {
    StoredKey(id: "a", name: "one", digest: [digest], scopes: ["send"], reach: .all, createdAt: at(1))
  }

  @Test("what is added again is there once, as it was", arguments: StoreKind.allCases)
  func added(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    for text in ["first", "second"] {
      #expect(try await store.add(Self.key(1), by: nil))
      // The limit is one: it counts itself only once.
      #expect(try await store.add(Self.campaign(1), openLimit: 1))
      var changes = IntakeChanges()
      changes.references = [(StoredNotificationID(run: Self.run, line: 1), text)]
      try store.write(changes)
      try await store.setFeedbackCursor(app: "news", to: text == "first" ? 9 : 3)
    }
    #expect(try await store.keys() == [Self.key(1)])
    #expect(try await store.campaigns(app: "news", before: nil, limit: 9) == [Self.campaign(1).head])
    #expect(try await store.notification(StoredNotificationID(run: Self.run, line: 1)).reference == "first")
    #expect(try await store.feedbackCursor(app: "news") == 9)
    var changed = Self.campaign(1)
    changed.state = "running"
    #expect(try await store.update(changed, from: 1))
    #expect(try await store.add(Self.campaign(1), openLimit: 1))
    #expect(try await store.campaignHead(changed.id)?.state == "running")
    try store.close()
  }

  @Test("another key with the same identifier is refused", arguments: StoreKind.allCases)
  func otherKey(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    #expect(try await store.add(Self.key(1), by: nil))
    await #expect(throws: StoreError.self) { try await store.add(Self.key(2), by: nil) }
    #expect(try await store.keys() == [Self.key(1)])
    try store.close()
  }

  @Test("what a clock that was set back says does not count", arguments: StoreKind.allCases)
  func earlier(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    #expect(try await store.add(Self.key(1), by: nil))
    for instant in [9, 5] as [Int64] {
      try await store.noteUse(of: ["a": Self.at(instant), "b": Self.at(instant)])
      try await store.forgetForwarded(before: Self.at(0), life: BridgeLife(lastSign: Self.at(instant), pause: 1))
      var changes = IntakeChanges()
      changes.bridge.addAlreadyDelivered(2, app: "news", at: Self.at(instant))
      try store.write(changes)
    }
    #expect(try await store.keys().map(\.lastUsedAt) == [Self.at(9)])
    #expect(try await store.bridgeLife()?.lastSign == Self.at(9))
    #expect(try await store.alreadyDelivered(app: "news").last == Self.at(9))
    #expect(try await store.alreadyDelivered(app: "news").count == 4)
    try store.close()
  }

  @Test("what belongs to a missing run is refused, with all that comes with it", arguments: StoreKind.allCases)
  func missingRun(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    var begun = IntakeChanges()
    begun.began = [(run: Self.run, app: "news", at: Self.at(1))]
    begun.accepted = [(run: Self.run, lines: 1...1, confirmation: "quiet")]
    begun.gone = [StoredGoneDevice(app: "news", token: [1], since: nil, foundAt: Self.at(2))]
    let missing = StoredRunID(high: 9, low: 9)
    var (accepted, refused, doubted) = (begun, begun, begun)
    accepted.accepted.append((run: missing, lines: 1...3, confirmation: "quiet"))
    refused.notAccepted = [
      (notification: StoredNotificationID(run: missing, line: 1), state: "rejected", detail: "")
    ]
    doubted.doubted = [Self.run, missing, Self.run].map { StoredLines(run: $0, lines: 1...3) }
    for changes in [accepted, refused, doubted] {
      #expect(throws: StoreError.self) { try store.write(changes) }
    }
    #expect(try await store.goneDevices(app: "news", after: 0, limit: 9).isEmpty)
    #expect(try await store.notification(StoredNotificationID(run: Self.run, line: 1)).outcome == nil)
    begun.doubted = doubted.doubted.filter { $0.run == Self.run }
    // The end of a run that is not there is no news.
    begun.ended = [(missing, Self.at(3))]
    try store.write(begun)
    #expect(try await store.outcomes(of: [StoredLines(run: Self.run, lines: 1...9)]).copies == 6)
    try store.close()
  }

  @Test("a run that begins again has not ended, and keeps its outcomes", arguments: StoreKind.allCases)
  func begunAgain(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    var changes = IntakeChanges()
    changes.began = [(run: Self.run, app: "news", at: Self.at(1))]
    changes.accepted = [(run: Self.run, lines: 1...3, confirmation: "quiet")]
    changes.ended = [(Self.run, Self.at(5))]
    try store.write(changes)
    (changes.accepted, changes.ended) = ([], [])
    try store.write(changes)
    try await store.forget(endedBefore: Self.at(100))
    #expect(try await store.outcomes(of: [StoredLines(run: Self.run, lines: 2...9)]).accepted == ["quiet": 2])
    try store.close()
  }

  @Test("an identifier that another device has is refused, with its whole portion", arguments: StoreKind.allCases)
  func usedIdentifier(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    func device(_ token: UInt8, _ id: UInt64) -> DeviceRegistration {
      DeviceRegistration(token: [token], newID: StoredUUID(high: 1, low: id), registeredAt: Self.at(1))
    }
    _ = try await store.register(device(1, 1), app: "news")
    await #expect(throws: StoreError.self) {
      try await store.importDevices([device(2, 2), device(3, 1)], app: "chat")
    }
    #expect(try await store.devices(app: "chat", tag: nil, after: 0, limit: 9).isEmpty)
    // It is no new device, so the identifier is not used.
    #expect(
      try await store.register(device(1, 7), app: "news") == RegisteredDevice.updated(StoredUUID(high: 1, low: 1)))
    let id = StoredUUID(high: 1, low: 1)
    #expect(try await store.device(id: id, app: "chat") == nil)
    #expect(try await store.devices(ids: [id, id, StoredUUID(high: 1, low: 7)], app: "news").keys.map(\.low) == [1])
    try store.close()
  }

  @Test("a campaign that is not there has no parts and is not cut", arguments: StoreKind.allCases)
  func missingCampaign(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let id = Self.campaign(1).id
    await #expect(throws: StoreError.self) {
      try await store.add([StoredCampaignPart(number: 0, dueAt: Self.at(1), content: [])], of: id)
    }
    try await store.add([StoredCampaignPart](), of: id)
    #expect(try await store.cut(id, from: 0, through: 9, adding: [MemberPiece(part: 0, keys: [1])]) == false)
    #expect(try await store.update(Self.campaign(1), from: 1) == false)
    #expect(try await store.progress(of: [id]).isEmpty)
    #expect(try await store.memberCount(of: id) == 0)
    try store.close()
  }

  @Test(
    "of more campaigns than are forgotten at a time, those that ended first go first", arguments: StoreKind.allCases)
  func oldestFirst(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    for (number, ended) in [30, 10, 40, 20].enumerated() {
      var campaign = Self.campaign(UInt64(number))
      campaign.endedAt = Self.at(Int64(ended))
      #expect(try await store.add(campaign, openLimit: 1))
    }
    let forgotten = try await store.forgetCampaigns(endedBefore: Self.at(40), limit: 2)
    #expect(Set(forgotten.map(\.low)) == [1, 3])
    #expect(try await store.campaigns(app: "news", before: nil, limit: 9).map(\.id.low) == [2, 0])
    try store.close()
  }
}
