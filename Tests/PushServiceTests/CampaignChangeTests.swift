internal import PushStore
internal import PushStoreSQLite
internal import Support
internal import Testing

@testable internal import PushService

@Suite("changes of campaigns")
struct CampaignChangeTests {
  private static func beginning(of record: StoredCampaign, at now: StoreInstant) throws -> CampaignEvent {
    CampaignDriver.beginning(of: record, due: try CampaignPlan(parsing: record.content[...]).dueAt, at: now)
  }

  private let place: Workplace
  private let store: SQLiteStore
  private let controller: CampaignController

  init() throws {
    place = try Workplace()
    store = try SQLiteStore(path: place.path("store.db"))
    controller = CampaignController(store: store)
  }

  private func campaign(_ state: CampaignState, sendAt: String = "") async throws -> StoredCampaign {
    let content = #"{"name":"x","payload":{"aps":{}}\#(sendAt)}"#
    var campaign = StoredCampaign(
      id: .make(at: MachineClock().now), app: "news", state: state.rawValue, content: Array(content.utf8),
      createdAt: MachineClock().now)
    campaign.reason = "as it was"
    #expect(try await store.add(campaign, openLimit: .max))
    return campaign
  }

  @Test("a reason is not written over that of a campaign that is over", arguments: [CampaignState.failed, .cancelled])
  func reasons(state: CampaignState) async throws {
    let old = try await campaign(state)
    for event in [CampaignEvent.failed, .hindered, .doubted, .due(isDue: true), .ended] {
      try await controller.change(old.id, { _ in event }) { campaign in
        campaign.reason = "another"
        campaign.startedAt = MachineClock().now
      }
    }
    #expect(try await store.campaign(old.id) == old)
    try await controller.change(old.id, { _ in .settled }) { $0.endedAt = MachineClock().now }
    #expect(try await store.campaign(old.id)?.endedAt != nil)
    try store.close()
  }

  @Test("a campaign that gets another time at the moment at which it is due is not begun")
  func rescheduled() async throws {
    let now = MachineClock().now
    func sendAt(_ seconds: Int64) -> String { #","sendAt":"\#(InstantText.text(now.after(seconds: seconds)))""# }
    let old = try await campaign(.scheduled, sendAt: sendAt(-1))
    #expect(try Self.beginning(of: old, at: now) == .due(isDue: true))
    var asked = 0
    let found = try await controller.change(
      old.id,
      { record in
        asked += 1
        return try Self.beginning(of: record, at: now)
      }
    ) { campaign in
      campaign.startedAt = now
    }
    #expect(found.status == .running)
    #expect(asked == 1)
    var later = try await campaign(.scheduled, sendAt: sendAt(-1))
    let tomorrow = try await campaign(.scheduled, sendAt: sendAt(86_400))
    later.content = tomorrow.content
    #expect(try await store.update(later, from: later.version))
    let kept = try await controller.change(later.id, { try Self.beginning(of: $0, at: now) }) { campaign in
      campaign.startedAt = now
    }
    #expect(kept.status == .scheduled)
    #expect(kept.startedAt == nil)
    let overdue = try await campaign(.scheduled, sendAt: sendAt(-7200))
    #expect(try Self.beginning(of: overdue, at: now) == .doubted)
    let paused = try await campaign(.paused, sendAt: sendAt(-1))
    #expect(try Self.beginning(of: paused, at: now) == .due(isDue: false))
    try store.close()
  }

  @Test("a time long ago is refused with how long; five minutes are not long, and a local time may say what to do")
  func past() throws {
    let now = StoreInstant(milliseconds: 1_800_000_000_000)
    func refusal(_ rest: String) throws -> String? {
      let plan = try CampaignPlan(parsing: Array(#"{"name":"x","payload":{"aps":{}}\#(rest)}"#.utf8)[...])
      do { try plan.checkTime(now: now) } catch let problem as Problem {
        #expect(problem.title == "Time has passed")
        return problem.detail
      }
      return nil
    }
    func sendAt(_ seconds: Int64) -> String { #","sendAt":"\#(InstantText.text(now.after(seconds: -seconds)))""# }
    #expect(try refusal("") == nil)
    #expect(try refusal(sendAt(-3600)) == nil)
    #expect(try refusal(sendAt(300)) == nil)
    #expect(try refusal(sendAt(301))?.contains("is 5 min ago; leave it out to send now") == true)
    #expect(try refusal(sendAt(358 * 86_400 + 5))?.contains("is 358 days ago; leave it out to send now") == true)
    // 2027-01-15T08:00Z: it is eight in the evening before at UTC-12.
    func local(_ time: String, _ past: String = "") -> String { #","localSend":{"time":"\#(time)"\#(past)}"# }
    #expect(try refusal(local("2027-01-14T20:00")) == nil)
    #expect(try refusal(local("2027-01-14T19:00"))?.contains("1 h ago") == true)
    #expect(try refusal(local("2026-01-14T19:00", #","past":"skip""#)) != nil)
    #expect(try refusal(local("2026-01-14T19:00", #","past":"now""#)) == nil)
  }
}
