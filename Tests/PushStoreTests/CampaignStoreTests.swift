internal import Support
internal import Testing

@testable internal import PushStore

@Suite("campaigns in the store")
struct CampaignStoreTests {
  private let place: Workplace
  private let store: SQLiteStore

  init() throws {
    place = try Workplace()
    store = try SQLiteStore(path: place.path("store.db"))
  }

  private static func campaign(_ number: UInt64, app: String = "news") -> StoredCampaign {
    StoredCampaign(
      id: StoredUUID(high: 0x0190_0000_0000_7000 + number << 16, low: 0x8000_0000_0000_0000 | number), app: app,
      state: "draft", content: Array("{\"name\":\"\(number)\"}".utf8), createdAt: StoreInstant(milliseconds: 1))
  }

  @Test("a change counts only from the version that was read")
  func versions() async throws {
    var campaign = Self.campaign(1)
    try await store.add(campaign)
    campaign.state = "running"
    campaign.startedAt = StoreInstant(milliseconds: 5)
    campaign.upload.lineCount = 7
    campaign.upload.isComplete = true
    campaign.lastKey = 9
    #expect(try await store.update(campaign, from: 1))
    #expect(try await store.update(campaign, from: 1) == false)
    campaign.version = 2
    #expect(try await store.campaign(campaign.id) == campaign)
    #expect(try await store.campaign(StoredUUID(high: 0, low: 0)) == nil)
    try store.close()
  }

  @Test("pages are an app's campaigns, the newest first; open ones are those of all apps")
  func pages() async throws {
    for number in 1...25 as ClosedRange<UInt64> {
      var campaign = Self.campaign(number, app: number % 5 == 0 ? "chat" : "news")
      if number % 2 == 0 { campaign.endedAt = StoreInstant(milliseconds: Int64(number)) }
      try await store.add(campaign)
    }
    var found: [StoredCampaign] = []
    while true {
      let page = try await store.campaigns(app: "news", before: found.last?.id, limit: 6)
      if page.isEmpty { break }
      found += page
    }
    let expected = (1...25).reversed().filter { $0 % 5 != 0 }.map { Self.campaign(UInt64($0)).id }
    #expect(found.map(\.id) == expected)
    #expect(try await store.openCampaigns().count == 13)
    #expect(try await store.latestCampaigns(limit: 3).map(\.id) == [25, 24, 23].map { Self.campaign($0).id })
    try store.close()
  }

  @Test("parts are made once; their accounts come later, or with them; all goes with the campaign")
  func parts() async throws {
    var campaign = Self.campaign(1)
    try await store.add(campaign)
    func part(_ number: Int, _ content: String) -> StoredCampaignPart {
      StoredCampaignPart(
        number: number, dueAt: StoreInstant(milliseconds: Int64(number)), content: Array(content.utf8))
    }
    var ended = part(1, "left out")
    ended.account = [1]
    ended.endedAt = StoreInstant(milliseconds: 3)
    try await store.add([part(0, "first"), ended], of: campaign.id)
    // Whoever divides it again changes nothing.
    try await store.add([part(0, "other"), part(1, "other")], of: campaign.id)
    #expect(try await store.parts(of: campaign.id) == [part(0, "first"), ended])
    try store.end(
      [
        EndedCampaignPart(
          campaign: campaign.id, number: 0, account: [2, 3], endedAt: StoreInstant(milliseconds: 4))
      ])
    #expect(try await store.parts(of: campaign.id).map(\.account) == [[2, 3], [1]])
    campaign.endedAt = StoreInstant(milliseconds: 50)
    #expect(try await store.update(campaign, from: 1))
    #expect(try await store.forgetCampaigns(endedBefore: StoreInstant(milliseconds: 50), limit: 10).isEmpty)
    #expect(
      try await store.forgetCampaigns(endedBefore: StoreInstant(milliseconds: 51), limit: 10) == [campaign.id])
    #expect(try await store.parts(of: campaign.id).isEmpty)
    try store.close()
  }

  @Test("a part is begun once, and again after it was renewed; one that has ended stays so")
  func beginnings() async throws {
    let campaign = Self.campaign(1)
    try await store.add(campaign)
    let parts = [0, 1].map { StoredCampaignPart(number: $0, dueAt: StoreInstant(milliseconds: 1), content: []) }
    try await store.add(parts, of: campaign.id)
    func begunAt() async throws -> [Int64?] {
      try await store.parts(of: campaign.id).map { $0.begunAt?.milliseconds }
    }
    for number in [0, 1] {
      try await store.begin(part: number, of: campaign.id, at: StoreInstant(milliseconds: 5))
    }
    try await store.begin(part: 0, of: campaign.id, at: StoreInstant(milliseconds: 9))
    #expect(try await begunAt() == [5, 5])
    try store.end(
      [EndedCampaignPart(campaign: campaign.id, number: 1, account: [], endedAt: StoreInstant(milliseconds: 7))])
    try await store.renew(parts: [0, 1], of: campaign.id)
    #expect(try await begunAt() == [nil, 5])
    try await store.begin(part: 0, of: campaign.id, at: StoreInstant(milliseconds: 9))
    #expect(try await begunAt() == [9, 5])
    try store.close()
  }

  @Test("what nobody has changed for long is forgotten, if it is in such a state")
  func unchanged() async throws {
    for (number, state) in ["draft", "draft", "uploading", "running"].enumerated() {
      var campaign = Self.campaign(UInt64(number))
      campaign.state = state
      campaign.changedAt = StoreInstant(milliseconds: number == 1 ? 20 : 10)
      campaign.upload.byteCount = Int64(number + 1)
      try await store.add(campaign)
    }
    let other = Self.campaign(0).id
    #expect(try await store.audienceByteCount(app: "news", besides: other) == 9)
    #expect(try await store.audienceByteCount(app: "chat", besides: other) == 0)
    let forgotten = try await store.forgetCampaigns(
      in: ["draft", "uploading"], unchangedSince: StoreInstant(milliseconds: 20), limit: 10)
    #expect(Set(forgotten) == Set([0, 2].map { Self.campaign($0).id }))
    #expect(try await store.openCampaigns().map(\.id) == [1, 3].map { Self.campaign($0).id })
    try store.close()
  }
}
