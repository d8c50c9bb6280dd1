internal import Foundation
internal import Support
internal import Testing

@Suite("Counts of devices over the API", .inProcess, .timeLimit(.minutes(5)))
struct ServeDeviceCountTests {
  private struct Counts: Decodable {
    struct Language: Decodable, Equatable {
      let language: String
      let devices: Int
    }
    struct Tag: Decodable, Equatable {
      let tag: String
      let devices: Int
    }
    struct Day: Decodable {
      let day: String
      let new: Int
      let gone: Int
    }

    let at: String
    let active: Int
    let gone: Int
    let withoutLanguage: Int
    let languages: [Language]
    let tags: [Tag]
    let days: [Day]
  }

  @Test("an app's devices by state, language, tag and day, counted at most once a minute, and on a page")
  func counts() async throws {
    // After its registration.
    let goneAt = Date(timeIntervalSinceNow: 60)
    let rules =
      "http2: { refuse: [ { prefixes: [dead], reason: Unregistered, "
      + "timestamp: \(Int(goneAt.timeIntervalSince1970 * 1_000)) } ] }"
    let running = try await RunningServe(rules: rules, scopes: ["admin"])
    let lines = (0..<5).map { number in
      let token = HTTP2Site.token(number, prefix: number == 4 ? "dead" : "00")
      let language = number < 3 ? #","language":"\#(number == 0 ? "de" : "en")""# : ""
      return #"{"token":"\#(token)","tags":["all"\#(number % 2 == 0 ? ",\"<b>\"" : "")]\#(language)}"#
    }
    let imported = try await running.call(
      "/v1/apps/news/devices:import", body: lines.joined(separator: "\n") + "\n",
      headers: ["Content-Type": "application/x-ndjson"])
    #expect(imported.status == 200, "\(imported.text)")
    _ = try await running.call(
      "/v1/apps/news/notifications", body: ServeSite.body(HTTP2Site.token(4, prefix: "dead")))
    try await waitUntil("the device is known to be gone") {
      try await running.call("/v1/apps/news/feedback").text.contains(HTTP2Site.token(4, prefix: "dead"))
    }
    let counts = try await running.call("/v1/apps/news/devices:count").decoded(Counts.self)
    #expect(counts.active == 4)
    #expect(counts.gone == 1)
    #expect(counts.withoutLanguage == 2)
    #expect(counts.languages == [.init(language: "en", devices: 2), .init(language: "de", devices: 1)])
    #expect(counts.tags == [.init(tag: "all", devices: 5), .init(tag: "<b>", devices: 3)])
    #expect(counts.days.count == 30)
    #expect(counts.days.reduce(0) { $0 + $1.new } == 5)
    // Unless that is tomorrow.
    let goneDay = counts.days.first { $0.day == goneAt.formatted(.iso8601.year().month().day()) }
    #expect(goneDay.map(\.gone) ?? 1 == 1)
    #expect(counts.days.map(\.day) == counts.days.map(\.day).sorted(by: >))
    #expect(counts.days.first.map { counts.at.hasPrefix($0.day) } == true)

    // Others are counted, too; a second answer is the first one again.
    #expect(try await running.call("/v1/apps/chat/devices:count").decoded(Counts.self).active == 0)
    let again = try await running.call("/v1/apps/news/devices:count").decoded(Counts.self)
    #expect(again.at == counts.at)
    let sender = try await running.serve.key(["--scope", "send"])
    let refused = try await running.serve.request(running.service.api, "/v1/apps/news/devices:count", key: sender)
    #expect(refused.status == 403)

    let browser = Browser(running.service.api)
    _ = try await browser.logIn(running.key)
    #expect(try await browser.get("/apps/news").text.contains("href=\"/apps/news/devices\""))
    let page = try await browser.get("/apps/news/devices").text
    #expect(page.contains("<dt>Active</dt><dd><strong>4</strong>"))
    #expect(page.contains("<td>&lt;b&gt;</td><td class=\"number\">3</td>"))
    #expect(try await browser.get("/apps/none/devices").status == 404)
    try await running.end()
  }
}
