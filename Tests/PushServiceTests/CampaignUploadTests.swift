internal import Foundation
internal import PushStore
internal import PushStoreSQLite
internal import Support
internal import Testing

@testable internal import PushService

@Suite("uploads of audiences")
struct CampaignUploadTests {
  private let place: Workplace
  private let store: SQLiteStore
  private let controller: CampaignController

  init() throws {
    place = try Workplace()
    store = try SQLiteStore(path: place.path("store.db"))
    controller = CampaignController(store: store)
  }

  private func draft() async throws -> StoredUUID {
    let campaign = StoredCampaign(
      id: .make(at: MachineClock().now), app: "news", state: CampaignState.draft.rawValue, content: Array("{}".utf8),
      createdAt: MachineClock().now)
    #expect(try await store.add(campaign, openLimit: .max))
    return campaign.id
  }

  /// As an upload that was cut off stores what it has.
  private func store(lines: Int64, of id: StoredUUID) async throws {
    try await controller.change(id, { _ in .uploadEnded(isComplete: false) }) { campaign in
      campaign.upload.lineCount = lines
      campaign.upload.byteCount = lines * 10
    }
  }

  @Test("an upload goes on behind the lines that the one before has stored last, and none comes twice")
  func goesOn() async throws {
    let id = try await draft()
    _ = try await controller.beginUpload(id, at: nil)
    try await store(lines: 5, of: id)
    // Its sender has read that there are five lines; then the last ones are stored.
    try await store(lines: 8, of: id)
    let (campaign, skipCount) = try await controller.beginUpload(id, at: 6)
    #expect(campaign.upload.lineCount == 8)
    #expect(campaign.upload.byteCount == 80)
    #expect(skipCount == 3)
    #expect(try await controller.beginUpload(id, at: 9).skipCount == 0)
    #expect(try await controller.beginUpload(id, at: nil).campaign.upload == StoredUpload())
    try store.close()
  }

  @Test("lines that would be missing are refused, and nothing changes")
  func gap() async throws {
    let id = try await draft()
    let problem = await #expect(throws: Problem.self) { try await controller.beginUpload(id, at: 2) }
    #expect(problem?.title == "Lines missing")
    #expect(problem?.action == "Continue with Carillon-First-Line: 1.")
    #expect(try await store.campaign(id)?.status == .draft)
    try store.close()
  }
}
