internal import Foundation
internal import PushStore
internal import PushStoreSQLite
internal import Support
internal import Testing

@testable internal import PushService

@Suite("retention of campaigns")
struct CampaignCleaningTests {
  @Test("campaigns are forgotten after their time with their parts and files; open ones and newer ones stay")
  func retention() async throws {
    let place = try Workplace()
    let store = try SQLiteStore(path: place.path("store.db"))
    let spool = CampaignSpool(besides: place.path("store.db"))
    let controller = CampaignController(store: store)
    let now = StoreInstant(milliseconds: 1_800_000_000_000)
    func add(_ state: CampaignState, endedBefore seconds: Int64?) async throws -> StoredUUID {
      var campaign = StoredCampaign(
        id: .make(at: now), app: "news", state: state.rawValue, content: Array("{}".utf8), createdAt: now)
      campaign.endedAt = seconds.map { now.after(seconds: -$0) }
      #expect(try await store.add(campaign, openLimit: .max))
      try await store.add([StoredCampaignPart(number: 0, dueAt: now, content: [])], of: campaign.id)
      try spool.make(campaign.id)
      let file = try SpoolFile(path: spool.audience(campaign.id))
      try file.append("token\n")
      try file.sync()
      return campaign.id
    }
    var old: [StoredUUID] = []
    // More than one turn of the store takes.
    for _ in 0..<120 { old.append(try await add(.finished, endedBefore: 101)) }
    old.append(try await add(.cancelled, endedBefore: 5000))
    let kept = [
      try await add(.finished, endedBefore: 99), try await add(.draft, endedBefore: nil),
      try await add(.running, endedBefore: nil), try await add(.paused, endedBefore: nil),
    ]
    _ = controller.live(old[0], app: "news")
    let cleaning = CampaignCleaning(
      controller: controller, files: AudienceFiles(spool: spool, store: store, clock: MachineClock()))
    try await cleaning.forget(endedBefore: now.after(seconds: -100))
    func folders() throws -> Set<String> { Set(try FileManager.default.contentsOfDirectory(atPath: spool.directory)) }
    for id in old {
      #expect(try await store.campaign(id) == nil)
      #expect(try await store.parts(of: id).isEmpty)
    }
    for id in kept { #expect(try await store.campaign(id) != nil) }
    #expect(try folders() == Set(kept.map(\.text)))
    #expect(controller.live(old[0]) == nil)

    // Drafts that nobody touches are forgotten too; what waits or sends is not.
    let draft = kept[1]
    var touched = try #require(try await store.campaign(draft))
    touched.changedAt = now.after(seconds: 50)
    #expect(try await store.update(touched, from: touched.version))
    try await cleaning.forget(draftsUnchangedSince: now.after(seconds: 50))
    #expect(try folders() == Set(kept.map(\.text)))
    try await cleaning.forget(draftsUnchangedSince: now.after(seconds: 51))
    #expect(try folders() == Set(kept.map(\.text)).subtracting([draft.text]))
    #expect(try await store.campaign(draft) == nil)
    try spool.make(draft)
    try await cleaning.removeOrphans()

    // A process was killed between the store and the files; what is no campaign's stays.
    let orphan = StoredUUID.make(at: now)
    try spool.make(orphan)
    try FileManager.default.createDirectory(atPath: "\(spool.directory)/lost+found", withIntermediateDirectories: true)
    try await cleaning.removeOrphans()
    #expect(try folders() == Set(kept.map(\.text) + ["lost+found"]).subtracting([draft.text]))
    try store.close()
  }
}
