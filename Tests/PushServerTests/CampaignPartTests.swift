internal import Foundation
internal import PushService
internal import PushStore
internal import PushWire
internal import Testing

@testable internal import Carillon
@testable internal import PushServer

@Suite("What a campaign's page shows")
struct CampaignPartTests {
  private static func report(total: Int64?) -> CampaignReport {
    var report = CampaignReport(
      record: StoredCampaign(
        id: StoredUUID(high: 1, low: 2), app: "news", state: "running", content: [],
        createdAt: StoreInstant(milliseconds: 0)
      ).head)
    report.record.audienceCount = total
    report.account.submitted = 70
    (report.account.confirmed, report.account.quiet) = (30, 10)
    report.account.rejectedByReason = ["410 Unregistered": 7]
    (report.account.suppressed, report.account.held) = (5, 2)
    return report
  }

  @Test("each part of the bar is as wide as it is many, and they leave no gap")
  func funnel() {
    let text = CampaignFunnel(Self.report(total: 100)).section("words").text
    let bars = text.matches(of: /<rect class="(\w+)" x="(\d+)" width="(\d+)"/)
      .map { "\($0.1) \($0.2) \($0.3)" }
    #expect(
      bars == ["accepted 0 40", "others 40 7", "suppressed 47 5", "ended 52 2", "flying 54 16", "unread 70 30"])
    #expect(text.contains("viewBox=\"0 0 100 1\""))
    #expect(text.contains("not yet read 30 (30.0 %)"))
    // How many there will be is not known.
    let open = CampaignFunnel(Self.report(total: nil)).section("words").text
    #expect(open.contains("viewBox=\"0 0 70 1\""))
    #expect(!open.contains("unread"))
    let empty = CampaignReport(record: Self.report(total: nil).record)
    #expect(!CampaignFunnel(empty).section("words").text.contains("svg"))
  }

  @Test("a campaign with a rate has a planned end, not before its last part")
  func plannedEnd() {
    var report = Self.report(total: 100)
    #expect(report.plannedEnd(at: 10) == nil, "it has not begun")
    report.record.startedAt = StoreInstant(milliseconds: 5_000)
    #expect(report.plannedEnd(at: nil) == nil)
    #expect(report.plannedEnd(at: 30) == StoreInstant(milliseconds: 9_000))
    let last = StoreInstant(milliseconds: 60_000)
    report.partTimes = StoreInstant(milliseconds: 5_000)...last
    #expect(report.plannedEnd(at: 30) == last)
    report.record.audienceCount = nil
    #expect(report.plannedEnd(at: 30) == nil)
  }

  @Test(
    "a preview has the texts of an alert, and says what is not seen",
    arguments: [
      (#"{"aps":{"alert":"<b>Hello</b>"}}"#, ["<p>&lt;b&gt;Hello&lt;/b&gt;</p>"], ["<strong>", "<em>"]),
      (
        #"{"aps":{"alert":{"title":"T","subtitle":"S","body":"B"},"badge":3,"sound":"ping.aiff"}}"#,
        ["<strong>T</strong>", "<em>S</em>", "<p>B</p>", "sound ping.aiff · badge 3"], []
      ), (#"{"aps":{"alert":{"loc-key":"GREETING"}}}"#, ["text: GREETING"], ["<p>GREETING"]),
      (#"{"aps":{"content-available":1}}"#, ["shows nothing"], ["<strong>"]), (#"{"x":1}"#, ["it has no aps"], []),
    ])
  func previews(payload: String, shown: [String], absent: [String]) {
    let text = NotificationPreview(payload: Array(payload.utf8)).html(app: "news", for: "de").text
    for part in shown { #expect(text.contains(part)) }
    for part in absent { #expect(!text.contains(part)) }
    #expect(text.contains("<figcaption>de</figcaption>"))
  }

  @Test("what helps against rejections is what the guide says")
  func hints() throws {
    let guide = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../../Sources/Carillon/Documentation.docc/Guides/Alarms.md")
    let lines = try String(contentsOf: guide, encoding: .utf8).replacing("`", with: "").split(separator: "\n")
    for (reason, text) in RejectionHint.texts { #expect(lines.contains("- \(reason): \(text)"), "\(reason)") }
  }

  @Test("times are an app's own, with UTC beside them, also on another day")
  func zones() {
    let evening = StoreInstant(milliseconds: 1_772_319_600_000)
    let berlin = PageZone("Europe/Berlin")
    #expect(berlin.time(evening).text == "2026-03-01 00:00 Berlin <span class=\"hint\">(2026-02-28 23:00 UTC)</span>")
    let noon = evening.after(seconds: 13 * 3_600)
    #expect(berlin.time(noon).text == "2026-03-01 13:00 Berlin <span class=\"hint\">(12:00 UTC)</span>")
    #expect(PageZone("America/New_York").timeOfDay(noon) == "07:00")
    #expect(PageZone("America/New_York").name == "New York")
    for zone in [PageZone.utc, PageZone("UTC"), PageZone("Etc/UTC"), PageZone("No/Such")] {
      #expect(zone.time(noon).text == "2026-03-01 12:00 UTC")
    }
    #expect(berlin.clock(noon, noon.after(seconds: -3_600)).text == "13:00 Berlin")
    #expect(berlin.clock(noon, noon.after(seconds: -90_000)).text == berlin.time(noon).text)
  }
}
