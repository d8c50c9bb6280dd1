internal import Foundation
internal import PushStore
internal import Support
internal import Testing

/// Campaigns to stored devices, and to people in several time zones.
@Suite("audiences of carillon serve", .timeLimit(.minutes(20)))
struct CampaignAudienceServeTests {
  /// Registers devices before the service starts.
  static func register(
    _ serve: ServeSite, _ devices: [(token: String, language: String?, zone: String?, tags: Set<String>)]
  ) async throws {
    let store = try serve.openStore()
    var registrations: [DeviceRegistration] = []
    for (index, device) in devices.enumerated() {
      let token = try #require(Self.bytes(device.token))
      var registration = DeviceRegistration(
        token: token, newID: StoredUUID(high: 0x0190_0000_0000_7000, low: UInt64(index)),
        registeredAt: StoreInstant(milliseconds: 1_700_000_000_000))
      registration.language = .set(device.language)
      registration.timeZone = .set(device.zone)
      registration.tags = .set(device.tags)
      registrations.append(registration)
    }
    for start in stride(from: 0, to: registrations.count, by: 500) {
      _ = try await store.importDevices(
        Array(registrations[start..<min(start + 500, registrations.count)]), app: "news")
    }
    try store.close()
  }

  private static func bytes(_ token: String) -> [UInt8]? {
    let digits = token.compactMap(\.hexDigitValue)
    guard digits.count == token.count else { return nil }
    return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] * 16 + digits[$0 + 1]) }
  }

  @Test("devices with a tag get the payload of their language; kill -9 changes nothing about who gets it")
  func devices() async throws {
    let count = 10_000
    let languages = ["de-AT", "en", nil, "fr"]
    var running = try await RunningServe.withCampaigns(rules: CampaignServeTests.dead) { serve in
      try await Self.register(
        serve,
        (0..<count).map { number in
          (
            HTTP2Site.token(number, prefix: number % 100 == 50 ? "dead" : "00"), languages[number % 4], nil,
            number % 2 == 0 ? ["fan"] : ["bot"]
          )
        })
    }
    var site = running.campaigns
    let path = try await site.make(
      """
      ,"audience":{"source":"devices","filter":{"all":["Fan"],"none":["Bot"],"languages":["de","fr"]}},"rateLimit":1500,
      "variants":{"de":{"aps":{"alert":"Hallo"}}}
      """)
    try await site.act(path, "start")
    try await waitUntil("some are sent") { try await site.campaign(path).progress.accepted >= 500 }
    try await running.restart()
    site = running.campaigns
    #expect(try await site.ended(path).state == "finished")
    // Every second device is a fan; of those, every second one speaks German, and the others none.
    let expected = (0..<count).filter { $0 % 4 == 0 }
    let account = try await site.account(path)
    #expect(account.submitted == expected.count)
    #expect(account.sum == expected.count)
    let dead = expected.count { $0 % 100 == 50 }
    #expect(account.rejected.total == dead)
    let taken = try await running.end()
    #expect(
      Set(taken.compactMap(\.token)) == Set(expected.filter { $0 % 100 != 50 }.map { HTTP2Site.token($0) }))
    #expect(taken.count - (expected.count - dead) <= account.possibleCopies)
  }

  @Test("a local send goes to each zone at its time, each device once; those left out are in the account", .inProcess)
  func localSend() async throws {
    let zones = ["Etc/GMT-1", "Etc/GMT+1", nil, "nowhere"]
    let running = try await RunningServe.withCampaigns { serve in
      try await Self.register(serve, (0..<400).map { (HTTP2Site.token($0), nil, zones[$0 % 4], []) })
    }
    let site = running.campaigns
    // It is this time at UTC+1 in a few seconds, and at UTC-1 two hours later.
    let now = Date()
    let local = now.addingTimeInterval(3600 + 4)
    let text = local.formatted(
      Date.ISO8601FormatStyle().year().month().day().time(includingFractionalSeconds: false))
    let time = String(text.prefix(19))
    let body = #","localSend":{"time":"\#(time)","missingTimeZone":"skip"}"#
    let devices = try await site.make(#"\#(body),"audience":{"source":"devices"}"#)
    let upload = try await site.make(body)
    let rows = (0..<400).map { "\(HTTP2Site.token(1000 + $0)),\(zones[$0 % 4] ?? "")" } + ["broken"]
    _ = try await site.upload(upload, ["token,timeZone"] + rows)
    // A dry run leaves out the same ones.
    let dryDevices = try await site.make(#"\#(body),"dryRun":true,"audience":{"source":"devices"}"#)
    let dryUpload = try await site.make(#"\#(body),"dryRun":true"#)
    _ = try await site.upload(dryUpload, ["token,timeZone"] + rows)
    for (path, extra) in [(dryDevices, 0), (dryUpload, 1)] {
      try await site.act(path, "start")
      #expect(try await site.ended(path).state == "finished")
      let account = try await site.account(path)
      #expect(account.submitted == 400 + extra)
      #expect(account.suppressed == 200)
      #expect(account.cancelled == 200)
      #expect(account.rejected.total == extra)
    }
    for path in [devices, upload] { try await site.act(path, "start") }
    for (path, extra) in [(devices, 0), (upload, 1)] {
      try await waitUntil("the first zone is sent") { try await site.campaign(path).progress.accepted == 100 }
      let account = try await site.account(path)
      #expect(account.suppressed == 200)
      #expect(account.submitted == 300 + extra)
      let reasons = try await site.outcomes(path).map { $0[3] }
      #expect(reasons.count { $0 == "no time zone" } == 200)
      #expect(try await site.campaign(path).state == "running")
      try await site.act(path, "cancel")
      _ = try await site.ended(path)
    }
    let taken = try await running.end().compactMap(\.token)
    let expected = (0..<400).filter { $0 % 4 == 0 }.flatMap { [HTTP2Site.token($0), HTTP2Site.token(1000 + $0)] }
    #expect(taken.sorted() == expected.sorted())
  }

  @Test(
    "devices that become one between the parts of a local send get it once, whichever part they were in", .inProcess)
  func mergedBetweenParts() async throws {
    // The first zone's time has passed, the second one's comes in some seconds.
    let (early, late) = ("Etc/GMT-1", "UTC")
    let zones = [early, late, late, early, nil, late, late, early]
    let running = try await RunningServe.withCampaigns(more: ["devices"]) { serve in
      try await Self.register(serve, zones.enumerated().map { (HTTP2Site.token($0.offset), nil, $0.element, []) })
    }
    let site = running.campaigns
    let text = Date().addingTimeInterval(12).formatted(
      Date.ISO8601FormatStyle().year().month().day().time(includingFractionalSeconds: false))
    let local = #"{"time":"\#(text.prefix(19))","missingTimeZone":"skip","past":"now"}"#
    let path = try await site.make(#","localSend":\#(local),"audience":{"source":"devices"}"#)
    try await site.act(path, "start")
    try await waitUntil("the first zone is sent") { try await site.campaign(path).progress.accepted == 3 }
    func merge(_ kept: Int, replacing old: Int) async throws {
      let device = "/v1/apps/news/devices/\(HTTP2Site.token(kept))"
      let reply = try await running.call(device, body: #"{"replacesToken":"\#(HTTP2Site.token(old))"}"#, method: "PUT")
      #expect(reply.status == 200, "\(reply.text)")
    }
    // The later key of 0 and 1 is in the second part, that of 2 and 3 in the first one.
    try await merge(0, replacing: 1)
    try await merge(2, replacing: 3)
    // 4 has no time zone and was left out; 5 was not.
    try await merge(4, replacing: 5)
    #expect(try await site.ended(path).state == "finished")
    let account = try await site.account(path)
    #expect(account.submitted == 8)
    #expect(account.suppressed == 3, "one without a time zone, and the other one of two pairs")
    let taken = try await running.end().compactMap(\.token)
    #expect(taken.sorted() == [0, 3, 4, 6, 7].map { HTTP2Site.token($0) }.sorted())
  }

  @Test(
    "whatever happens to devices meanwhile, a campaign is for those of its beginning: each gets it once, or is listed",
    .inProcess)
  func fixedMembers() async throws {
    // The first three pages are read before anything is changed.
    let count = 14_000
    let running = try await RunningServe.withCampaigns(more: ["devices"]) { serve in
      try await Self.register(serve, (0..<count).map { (HTTP2Site.token($0), nil, nil, ["fan"]) })
    }
    let site = running.campaigns
    let path = try await site.make(
      #","rateLimit":2500,"audience":{"source":"devices","filter":{"all":["fan"]}}"#)
    try await site.act(path, "start")
    try await waitUntil("its total is known") { try await site.campaign(path).progress.total == count }
    try await site.act(path, "pause")
    let sent = try await site.campaign(path).progress.accepted
    #expect(sent < 12_000)
    func change(_ number: Int, _ method: String, _ body: String? = nil) async throws {
      let device = "/v1/apps/news/devices/\(HTTP2Site.token(number))"
      let reply = try await running.call(device, body: body, method: method)
      #expect((200...204).contains(reply.status), "\(reply.text)")
    }
    // Some leave, some are no fans any more, some get the token of an earlier or a later one.
    for number in 13_900..<13_910 { try await change(number, "DELETE") }
    for number in 13_910..<13_920 { try await change(number, "PUT", #"{"tags":[]}"#) }
    for number in 13_920..<13_930 {
      try await change(number, "PUT", #"{"replacesToken":"\#(HTTP2Site.token(number + 10))"}"#)
    }
    for number in 13_950..<13_960 {
      try await change(number, "PUT", #"{"replacesToken":"\#(HTTP2Site.token(number - 10))"}"#)
    }
    // And others come, also one that had left.
    let others = (Array(50_000..<50_200) + [13_900]).map { #"{"token":"\#(HTTP2Site.token($0))","tags":["fan"]}"# }
    let reply = try await running.call(
      "/v1/apps/news/devices:import", body: others.joined(separator: "\n"),
      headers: ["Content-Type": "application/x-ndjson"])
    #expect(reply.status == 200, "\(reply.text)")
    try await site.act(path, "resume")
    #expect(try await site.ended(path).state == "finished")
    let account = try await site.account(path)
    #expect(account.submitted == count)
    #expect(account.suppressed == 30)
    #expect(try await site.outcomes(path).count { $0[2] == "suppressed" } == 30)
    let gone = Set(13_900..<13_910).union(13_930..<13_950)
    let taken = try await running.end().compactMap(\.token)
    #expect(taken.sorted() == (0..<count).filter { !gone.contains($0) }.map { HTTP2Site.token($0) }.sorted())
  }

  @Test("a campaign begins at its time, and a dry run sends nothing; quiet hours hold one back")
  func schedules() async throws {
    var running = try await RunningServe.withCampaigns()
    var site = running.campaigns
    func instant(_ seconds: Double) -> String {
      Date().addingTimeInterval(seconds).formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
    }
    let tokens = (0..<50).map { HTTP2Site.token($0) }
    func started(_ rest: String) async throws -> String {
      let path = try await site.make(rest)
      _ = try await site.upload(path, tokens)
      try await site.act(path, "start")
      return path
    }
    let soon = try await started(#","sendAt":"\#(instant(3))""#)
    let later = try await started(#","sendAt":"\#(instant(3600))""#)
    #expect(try await site.campaign(later).state == "scheduled")
    let dry = try await started(#","dryRun":true"#)
    #expect(try await site.ended(dry).state == "finished")
    let counted = try await site.account(dry)
    #expect(counted.submitted == 50)
    #expect(counted.cancelled == 50)
    #expect(counted.notes.contains { $0.contains("50 of 50 could be sent") })
    // Quiet from a minute ago until an hour from now, in UTC.
    let day = Int(Date().timeIntervalSince1970) % 86_400
    func clock(_ second: Int) -> String {
      let minute = (second + 86_400) / 60 % 1440
      return String(format: "%02d:%02d", minute / 60, minute % 60)
    }
    let quiet = try await started(#","quietHours":"\#(clock(day - 60))-\#(clock(day + 3600))""#)
    try await waitUntil("it is held") { try await site.campaign(quiet).state == "held" }
    #expect(try await site.campaign(quiet).reason?.contains("Quiet hours") == true)
    let missed = try await started(#","sendAt":"\#(instant(4))""#)
    #expect(try await site.ended(soon).state == "finished")
    try await running.restart()
    site = running.campaigns
    #expect(try await site.ended(missed).state == "finished")
    #expect(try await site.campaign(quiet).state == "held")
    #expect(try await site.account(quiet).submitted == 0)
    try await site.act(quiet, "cancel")
    #expect(try await site.ended(quiet).state == "cancelled")
    // Some of the last one may have been sent twice when the process was killed.
    #expect((100...150).contains(try await running.end().count))
  }
}
