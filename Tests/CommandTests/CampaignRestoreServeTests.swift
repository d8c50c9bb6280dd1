internal import Foundation
internal import PushStore
internal import PushStoreSQLite
internal import Support
internal import Testing

/// What a service does with campaigns whose past it cannot know: its journal is gone, or its store
/// was restored from a backup.
@Suite("campaigns after a loss", .timeLimit(.minutes(20)))
struct CampaignRestoreServeTests {
  @Test("a campaign that the journal has lost sends to nobody until a person resumes it")
  func lostJournal() async throws {
    var running = try await RunningServe.withCampaigns()
    var site = running.campaigns
    let tokens = (0..<400).map { HTTP2Site.token($0) }
    var paths: [String] = []
    for _ in 0..<2 {
      let path = try await site.make(#","rateLimit":20"#)
      _ = try await site.upload(path, tokens)
      try await site.act(path, "start")
      try await waitUntil("it sends") { try await site.campaign(path).progress.accepted > 10 }
      paths.append(path)
    }
    let (resumed, cancelled) = (paths[0], paths[1])
    let journal = running.serve.site.place.path("journal")
    try await running.restart { try FileManager.default.removeItem(atPath: journal) }
    site = running.campaigns
    for path in paths {
      try await waitUntil("it is held") { try await site.campaign(path).state == "held" }
      let held = try await site.campaign(path)
      #expect(held.reason?.contains("The journal no longer knows the campaign") == true)
      #expect(held.progress.submitted == 0)
    }
    // It stays so through another start: nothing but a person lets it go on.
    try await running.restart(after: SIGTERM)
    site = running.campaigns
    for path in paths { #expect(try await site.campaign(path).state == "held") }
    #expect(try await site.account(resumed).submitted == 0)
    try await site.act(cancelled, "cancel")
    #expect(try await site.ended(cancelled).state == "cancelled")
    try await site.act(resumed, "resume")
    try await waitUntil("it sends again") { try await site.campaign(resumed).progress.accepted > 0 }
    #expect(try await site.campaign(resumed).reason == nil)
    // Now the journal knows it, so that it goes on by itself.
    try await running.restart()
    site = running.campaigns
    #expect(try await site.ended(resumed).state == "finished")
    let account = try await site.account(resumed)
    #expect(account.submitted == tokens.count)
    #expect(account.sum == tokens.count)
    try await running.end()
  }

  @Test(
    "a campaign whose time passed long before the service ran waits for a person; one a little late does not",
    .inProcess, .ofStoreFile)
  func overdue() async throws {
    var running = try await RunningServe.withCampaigns()
    var site = running.campaigns
    func instant(_ seconds: Double) -> String {
      Date().addingTimeInterval(seconds).formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
    }
    var paths: [String] = []
    for number in 0..<3 {
      let path = try await site.make(#","sendAt":"\#(instant(3600))""#)
      _ = try await site.upload(path, [HTTP2Site.token(number)])
      try await site.act(path, "start")
      paths.append(path)
    }
    let (little, long, paused) = (paths[0], paths[1], paths[2])
    try await site.act(paused, "pause")
    let file = running.serve.site.place.path("store.db")
    // As if its time had been while no service ran.
    try await running.restart(after: SIGTERM) {
      let store = try SQLiteStore(path: file)
      // The newest first.
      let campaigns = try await store.campaigns(app: "news", before: nil, limit: 10).reversed()
      for (head, late) in zip(campaigns, [600.0, 7200, 7200]) {
        var campaign = try #require(try await store.campaign(head.id))
        let content =
          #"{"name":"sale","payload":\#(CampaignSite.hello),"sendAt":"\#(instant(-late))"}"#
        campaign.content = Array(content.utf8)
        #expect(try await store.update(campaign, from: campaign.version))
      }
      try store.close()
    }
    site = running.campaigns
    #expect(try await site.ended(little).state == "finished")
    try await waitUntil("it is held") { try await site.campaign(long).state == "held" }
    #expect(try await site.campaign(long).reason?.contains("Its time was 2 h ago") == true)
    #expect(try await site.campaign(long).startedAt == nil)
    for path in [long, paused] {
      try await site.act(path, "resume")
      #expect(try await site.ended(path).state == "finished")
    }
    #expect(try await running.end().count == 3)
  }
}
