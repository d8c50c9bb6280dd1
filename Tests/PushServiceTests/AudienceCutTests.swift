internal import Carillon
internal import Foundation
internal import PushSend
internal import PushStore
internal import PushStoreSQLite
internal import Support
internal import Testing

@testable internal import PushService

@Suite("cutting the audience of a campaign")
struct AudienceCutTests {
  private static let now = StoreInstant(milliseconds: 1_800_000_000_000)

  private struct Site {
    let store: SQLiteStore
    let spool: CampaignSpool
    let controller: CampaignController
    let campaign: StoredCampaign
    let plan: CampaignPlan

    init(_ place: Workplace, deviceCount: Int) async throws {
      store = try SQLiteStore(path: place.path("store.db"))
      spool = CampaignSpool(besides: place.path("store.db"))
      controller = CampaignController(store: store)
      let text = #"{"name":"x","payload":{"aps":{}},"audience":{"source":"devices","filter":{"all":["odd"]}}}"#
      plan = try CampaignPlan(parsing: Array(text.utf8)[...])
      for start in stride(from: 0, to: deviceCount, by: 1_000) {
        let devices = (start..<min(deviceCount, start + 1_000)).map { number in
          var device = DeviceRegistration(
            token: [1, UInt8(number >> 16), UInt8(number >> 8 & 255), UInt8(number & 255)],
            newID: StoredUUID(high: 1, low: UInt64(number)), registeredAt: now)
          device.tags = .set(number % 2 == 0 ? ["odd"] : [])
          return device
        }
        _ = try await store.importDevices(devices, app: "news")
      }
      var campaign = StoredCampaign(
        id: .make(at: now), app: "news", state: CampaignState.running.rawValue, content: Array(text.utf8),
        createdAt: now)
      campaign.lastKey = try await store.lastDeviceKey(app: "news")
      #expect(try await store.add(campaign, openLimit: .max))
      self.campaign = campaign
    }

    var cut: AudienceCut {
      AudienceCut(
        controller: controller, files: AudienceFiles(spool: spool, store: store, clock: MachineClock()),
        live: controller.live(campaign.id, app: "news"))
    }

    func members(_ part: Int) async throws -> [Int64] {
      var found: [Int64] = []
      while case let some = try await store.members(of: campaign.id, part: part, after: found.last ?? 0), !some.isEmpty
      {
        found += some
      }
      return found
    }
  }

  @Test("two that cut at the same time, and one that goes on after an interruption, cut it once")
  func twice() async throws {
    let place = try Workplace()
    let site = try await Site(place, deviceCount: 90_000)
    // An earlier process came as far as this.
    let first = try await site.store.audienceMembers(
      app: "news", filter: site.plan.filter, after: 0, through: 50_000, withTimeZones: false)
    #expect(first.through < 50_000)
    let pieces = MemberPiece.pieces(of: first.members.map(\.key), part: 0)
    #expect(try await site.store.cut(site.campaign.id, from: 0, through: first.through, adding: pieces))
    async let one = site.cut.finish(site.campaign.id, site.plan, [])
    async let other = site.cut.finish(site.campaign.id, site.plan, [])
    #expect(try await [one, other] == [45_000, 45_000])
    #expect(try await site.members(0) == (0..<45_000).map { $0 * 2 + 1 })
    try site.store.close()
  }

  @Test("the lists of keys that an older version wrote for a local send become its members")
  func older() async throws {
    let place = try Workplace()
    let site = try await Site(place, deviceCount: 10)
    try site.spool.make(site.campaign.id)
    let lists: [[Int64]] = [[1, 5], [], (1...300_000).map { $0 * 2 + 6 }]
    for (part, keys) in lists.enumerated() {
      let bytes = keys.flatMap { key in (0..<8).map { UInt8(truncatingIfNeeded: key >> ($0 * 8)) } }
      try Data(bytes).write(to: URL(filePath: site.spool.keys(site.campaign.id, part: part)))
    }
    var parts = lists.indices.map {
      StoredCampaignPart(number: $0, dueAt: Self.now, content: CampaignDivision.Content().bytes)
    }
    var leftOut = CampaignDivision.Content()
    leftOut.isLeftOut = true
    var last = StoredCampaignPart(number: 3, dueAt: Self.now, content: leftOut.bytes)
    var account = CampaignAccount()
    (account.submitted, account.suppressed) = (4, 4)
    last.account = AccountJSON.bytes(of: account)
    parts.append(last)
    // Killed while it did so: what is there is replaced.
    _ = try await site.store.cut(
      site.campaign.id, from: 0, through: 0,
      adding: [MemberPiece(part: 0, keys: [1, 5]), MemberPiece(part: 2, keys: [9])])
    #expect(try await site.cut.finish(site.campaign.id, site.plan, parts) == 300_006)
    for (part, keys) in lists.enumerated() { #expect(try await site.members(part) == keys) }
    #expect(try await site.store.campaignHead(site.campaign.id)?.isCut == true)
    try site.store.close()
  }
}
