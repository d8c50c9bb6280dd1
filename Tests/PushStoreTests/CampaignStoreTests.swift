internal import Foundation
internal import GRDB
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushStore
@testable internal import PushStoreSQLite

@Suite("campaigns in the store")
struct CampaignStoreTests {
  private static func campaign(_ number: UInt64, app: String = "news") -> StoredCampaign {
    StoredCampaign(
      id: StoredUUID(high: 0x0190_0000_0000_7000 + number << 16, low: 0x8000_0000_0000_0000 | number), app: app,
      state: "draft", content: Array("{\"name\":\"\(number)\"}".utf8), createdAt: StoreInstant(milliseconds: 1))
  }

  @Test("a change counts only from the version that was read", arguments: StoreKind.allCases)
  func versions(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    var campaign = Self.campaign(1)
    #expect(try await store.add(campaign, openLimit: .max))
    campaign.state = "running"
    campaign.startedAt = StoreInstant(milliseconds: 5)
    campaign.upload.lineCount = 7
    campaign.upload.isComplete = true
    campaign.lastKey = 9
    #expect(try await store.update(campaign, from: 1))
    // Whoever has read an older one changes nothing, the plan neither.
    var late = campaign
    (late.state, late.content) = ("cancelled", Array("{}".utf8))
    #expect(try await store.update(late, from: 1) == false)
    campaign.version = 2
    #expect(try await store.campaign(campaign.id) == campaign)
    #expect(try await store.campaign(StoredUUID(high: 0, low: 0)) == nil)
    try store.close()
  }

  @Test("members are fixed once, in pieces, and read by part behind any key", arguments: StoreKind.allCases)
  func members(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let campaign = Self.campaign(1)
    #expect(try await store.add(campaign, openLimit: .max))
    let odd = (0..<6_000).map { Int64($0) * 2 + 1 }
    let pieces = MemberPiece.pieces(of: odd, part: 0) + [MemberPiece(part: 3, keys: [2, 4, 9_000])]
    #expect(pieces.map(\.keys.count) == [4096, 1904, 3])
    #expect(try await store.cut(campaign.id, from: 0, through: 12_000, adding: pieces))
    #expect(try await store.cut(campaign.id, from: 0, through: 12_000, adding: pieces) == false)
    #expect(
      try await store.cut(campaign.id, from: 12_000, through: 90_000, adding: [MemberPiece(part: 0, keys: [80_001])]))
    #expect(try await store.memberCount(of: campaign.id) == 6_004)
    for part in [0, 3] {
      var (found, after): ([Int64], Int64) = ([], 0)
      while case let some = try await store.members(of: campaign.id, part: part, after: after), let last = some.last {
        found += some
        after = last
      }
      #expect(found == (part == 0 ? odd + [80_001] : [2, 4, 9_000]))
    }
    #expect(
      try await store.members(of: campaign.id, part: 0, after: 8_180) == [8_181, 8_183, 8_185, 8_187, 8_189, 8_191])
    #expect(try await store.members(of: campaign.id, part: 1, after: 0).isEmpty)
    let parts = try await store.memberParts(of: campaign.id, keys: [1, 3, 4, 6, 9_000, 11_999, 80_001])
    #expect(parts == [1: 0, 3: 0, 4: 3, 9_000: 3, 11_999: 0, 80_001: 0])
    // How far it is cut is nothing that a change of the campaign takes back.
    var changed = campaign
    changed.reason = "why"
    changed.lastKey = 90_000
    #expect(try await store.update(changed, from: 1))
    #expect(try await store.campaignHead(campaign.id)?.isCut == true)
    try await store.removeMembers(of: campaign.id)
    #expect(try await store.memberCount(of: campaign.id) == 0)
    #expect(try await store.campaignHead(campaign.id)?.cutKey == 0)
    #expect(try await store.cut(campaign.id, from: 0, through: 3, adding: [MemberPiece(part: 0, keys: [2])]))
    changed.version = 2
    changed.endedAt = StoreInstant(milliseconds: 5)
    #expect(try await store.update(changed, from: 2))
    #expect(try await store.forgetCampaigns(endedBefore: StoreInstant(milliseconds: 6), limit: 1) == [campaign.id])
    #expect(try await store.memberCount(of: campaign.id) == 0)
    try store.close()
  }

  @Test("keys of members are the same after writing and reading; damage is no list of keys")
  func pieces() {
    let seed = SeededGenerator.freshSeed()
    var random = SeededGenerator(seed: seed)
    for _ in 0..<200 {
      var key: Int64 = 0
      let keys = (0..<Int.random(in: 1...50, using: &random)).map { _ in
        key += Int64.random(in: 1...(1 << Int64.random(in: 0...50, using: &random)), using: &random)
        return key
      }
      let bytes = MemberPiece(part: 0, keys: keys).bytes
      #expect(MemberPiece.keys(in: bytes) == keys)
      #expect(MemberPiece.keys(in: bytes.dropLast() + [0x80]) == nil)
      _ = MemberPiece.keys(in: random.bytes(40))
    }
    #expect(MemberPiece(part: 0, keys: Array(1...4096)).bytes.count == 4096)
  }

  @Test(
    "pages are an app's campaigns, the newest first; open ones are those of all apps", arguments: StoreKind.allCases)
  func pages(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    for number in 1...25 as ClosedRange<UInt64> {
      var campaign = Self.campaign(number, app: number % 5 == 0 ? "chat" : "news")
      if number % 2 == 0 { campaign.endedAt = StoreInstant(milliseconds: Int64(number)) }
      #expect(try await store.add(campaign, openLimit: .max))
    }
    var found: [CampaignHead] = []
    while true {
      let page = try await store.campaigns(app: "news", before: found.last?.id, limit: 6)
      if page.isEmpty { break }
      found += page
    }
    let expected = (1...25).reversed().filter { $0 % 5 != 0 }.map { Self.campaign(UInt64($0)).id }
    #expect(found.map(\.id) == expected)
    func numbers(_ found: [CampaignHead]) -> [UInt64] { found.map { $0.id.low & 0xFF } }
    #expect(try await store.openCampaigns(of: .all, in: nil, limit: nil).count == 13)
    #expect(numbers(try await store.openCampaigns(of: .only(["chat"]), in: nil, limit: nil)) == [25, 15, 5])
    #expect(numbers(try await store.openCampaigns(of: .only(["chat"]), in: ["draft"], limit: 2)) == [25, 15])
    #expect(try await store.openCampaigns(of: .only([]), in: nil, limit: nil).isEmpty)
    #expect(try await store.openCampaigns(of: .all, in: ["running"], limit: nil).isEmpty)
    #expect(try await store.openCampaignCount(of: .only(["chat"]), in: ["draft", "held"]) == 3)
    #expect(try await store.openCampaignCount(of: .only(["other"]), in: ["draft"]) == 0)
    #expect(numbers(try await store.latestCampaigns(of: .all, limit: 3)) == [25, 24, 23])
    #expect(numbers(try await store.latestCampaigns(of: .only(["chat", "x"]), limit: 3)) == [25, 20, 15])
    try store.close()
  }

  @Test(
    "parts are made once; their accounts come later, or with them; all goes with the campaign",
    arguments: StoreKind.allCases)
  func parts(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    var campaign = Self.campaign(1)
    #expect(try await store.add(campaign, openLimit: .max))
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

  @Test(
    "a part is begun once, and again after it was renewed; one that has ended stays so", arguments: StoreKind.allCases)
  func beginnings(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let campaign = Self.campaign(1)
    #expect(try await store.add(campaign, openLimit: .max))
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

  @Test("what nobody has changed for long is forgotten, if it is in such a state", arguments: StoreKind.allCases)
  func unchanged(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    for (number, state) in ["draft", "draft", "uploading", "running"].enumerated() {
      var campaign = Self.campaign(UInt64(number))
      campaign.state = state
      campaign.changedAt = StoreInstant(milliseconds: number == 1 ? 20 : 10)
      campaign.upload.byteCount = Int64(number + 1)
      #expect(try await store.add(campaign, openLimit: .max))
    }
    let other = Self.campaign(0).id
    #expect(try await store.audienceByteCount(app: "news", besides: other) == 9)
    #expect(try await store.audienceByteCount(app: "chat", besides: other) == 0)
    let forgotten = try await store.forgetCampaigns(
      in: ["draft", "uploading"], unchangedSince: StoreInstant(milliseconds: 20), limit: 10)
    #expect(Set(forgotten) == Set([0, 2].map { Self.campaign($0).id }))
    #expect(
      try await store.openCampaigns(of: .all, in: nil, limit: nil).map(\.id) == [3, 1].map { Self.campaign($0).id })
    try store.close()
  }

  @Test(
    "an app has so many campaigns that have not ended; those of others and ended ones do not count",
    arguments: StoreKind.allCases)
  func openLimit(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    var ended = Self.campaign(1)
    ended.endedAt = StoreInstant(milliseconds: 9)
    #expect(try await store.add(ended, openLimit: 2))
    #expect(try await store.add(Self.campaign(2), openLimit: 2))
    #expect(try await store.add(Self.campaign(3), openLimit: 2))
    #expect(try await store.add(Self.campaign(4), openLimit: 2) == false)
    #expect(try await store.campaign(Self.campaign(4).id) == nil)
    #expect(try await store.add(Self.campaign(5, app: "chat"), openLimit: 2))
    var campaign = try #require(try await store.campaign(Self.campaign(2).id))
    campaign.endedAt = StoreInstant(milliseconds: 9)
    #expect(try await store.update(campaign, from: campaign.version))
    #expect(try await store.add(Self.campaign(4), openLimit: 2))
    try store.close()
  }

  @Test("the parts of more campaigns than one statement has room for are read", arguments: StoreKind.allCases)
  func manyCampaigns(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let campaign = Self.campaign(1)
    #expect(try await store.add(campaign, openLimit: .max))
    try await store.add([StoredCampaignPart(number: 0, dueAt: campaign.createdAt, content: [1])], of: campaign.id)
    let others = (1...20_000).map { StoredUUID(high: 7_000, low: $0) }
    let found = try await store.progress(of: others + [campaign.id])
    #expect(found.count == 1)
    #expect(found[campaign.id]?.map(\.number) == [0])
    try store.close()
  }

  @Test("lists, counts, heads and parts are read without the table of plans, whoever asks")
  func withoutPlans() async throws {
    let place = try Workplace()
    let store = try SQLiteStore(path: place.path("store.db"))
    var campaign = Self.campaign(1)
    campaign.head.summary.name = "sale"
    campaign.audienceCount = 12
    #expect(try await store.add(campaign, openLimit: .max))
    try await store.add([StoredCampaignPart(number: 0, dueAt: campaign.createdAt, content: [1])], of: campaign.id)
    let statements = Mutex<[String]>([])
    // Reads that follow one another share the connection.
    try await store.pool.read { database in
      database.trace { event in statements.withLock { $0.append("\(event)") } }
    }
    let apps = AppReach.only(["news"])
    #expect(try await store.campaigns(app: "news", before: nil, limit: 5) == [campaign.head])
    #expect(try await store.latestCampaigns(of: apps, limit: 5) == [campaign.head])
    #expect(try await store.openCampaigns(of: apps, in: ["draft"], limit: nil) == [campaign.head])
    #expect(try await store.openCampaignCount(of: apps, in: ["draft"]) == 1)
    #expect(try await store.campaignHead(campaign.id) == campaign.head)
    #expect(try await store.progress(of: campaign.id).count == 1)
    let listed = statements.withLock { $0 }
    #expect(listed.count { $0.contains("FROM campaigns") } == 5)
    #expect(listed.count { $0.contains("FROM campaignParts") } == 1)
    #expect(!listed.contains { $0.contains("campaignPlans") || $0.contains("*") && !$0.contains("count(*)") })
    #expect(!listed.contains { $0.contains("content") })
    // The probe sees a plan that is read.
    #expect(try await store.plan(of: campaign.id) == campaign.content)
    #expect(statements.withLock { $0.contains { $0.contains("campaignPlans") } })
    try store.close()
  }

  @Test("a store of the version before keeps its plans, and knows what lists show of them")
  func migration() async throws {
    let place = try Workplace()
    let path = place.path("old.db")
    let old = try DatabaseQueue(path: path)
    try Schema.migrator.migrate(old, upTo: "11: all apps is a word")
    let plans = [
      #"{"name":"é \"x\"","payload":{"aps":{}},"sendAt":"2027-01-31t09:00:00+01:00","audience":{"source":"devices"}}"#,
      #"{"name":"local","payload":{},"localSend":{"time":"2027-01-31T09:00"},"dryRun":true}"#,
      #"{"name":"plain","payload":{}}"#, "no JSON",
    ]
    try await old.write { database in
      for (index, plan) in plans.enumerated() {
        try database.execute(
          sql: """
            INSERT INTO campaigns (high, low, app, state, version, content, reason, lineCount, byteCount, isComplete,
              format, createdAt) VALUES (?, 1, 'news', 'draft', 3, ?, 'why', 4, 5, 1, 'csv', 6)
            """, arguments: [index, Data(plan.utf8)])
      }
      try database.execute(
        sql: "INSERT INTO campaignParts (high, low, number, dueAt, content) VALUES (0, 1, 0, 1, x'')")
    }
    try old.close()
    let store = try SQLiteStore(path: path)
    let heads = try await store.campaigns(app: "news", before: nil, limit: 10).reversed()
    #expect(heads.map(\.summary.name) == ["é \"x\"", "local", "plain", ""])
    #expect(heads.map(\.summary.isForDevices) == [true, false, false, false])
    #expect(heads.map(\.summary.isDryRun) == [false, true, false, false])
    #expect(heads.map(\.planByteCount) == plans.map(\.utf8.count))
    // 2027-01-31T08:00:00Z, and from UTC+14 to UTC-12.
    let nine: Int64 = 1_801_386_000
    #expect(heads.map { $0.summary.beginsAt.map { $0.milliseconds / 1000 } } == [nine - 3600, nine - 50_400, nil, nil])
    #expect(heads.map { $0.summary.lastBeginsAt.map { $0.milliseconds / 1000 } } == [nil, nine + 43_200, nil, nil])
    for (head, plan) in zip(heads, plans) {
      let campaign = try #require(try await store.campaign(head.id))
      #expect(campaign.content == Array(plan.utf8))
      #expect(campaign.head == head)
      #expect((head.version, head.reason, head.upload.lineCount) == (3, "why", 4))
    }
    #expect(try await store.progress(of: StoredUUID(high: 0, low: 1)).count == 1)
    try store.close()
  }
}
