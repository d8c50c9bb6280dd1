internal import Foundation
internal import Support
internal import Testing

/// Live Activities over the API of a service.
@Suite("The service's Live Activities")
struct ServeActivitiesTests {
  private struct Activity: Decodable { let devices: Int }
  private struct Sent: Decodable {
    let batchId: String
    let queued: Int
  }
  private struct Batch: Decodable { let state: String }

  /// Of a device, and of an activity on it.
  private static func tokens(_ number: Int) -> (device: String, activity: String) {
    (HTTP2Site.token(number, prefix: "de"), HTTP2Site.token(number, prefix: number % 5 == 0 ? "dead" : "ac"))
  }

  @Test("an activity is updated and ended on all devices that show it, each once, and then forgotten", .inProcess)
  func life() async throws {
    let serve = try ServeSite()
    // Found gone later than it was registered.
    let upstream = try await serve.site.simulate(
      rules: "http2: { refuse: [ { prefixes: [dead], reason: Unregistered, timestamp: 4102444800000 } ] }")
    try serve.configure(upstream, apps: ["news"])
    let key = try await serve.key(["--scope", "send", "--scope", "read", "--scope", "devices"])
    let service = try await serve.start()
    func ask(_ path: String, method: String = "GET", body: String? = nil) async throws -> ServeSite.Reply {
      try await serve.request(service.api, "/v1/apps/news/\(path)", key: key, body: body, method: method)
    }
    func register(_ number: Int, _ token: String, _ activity: String = "match-42") async throws -> Int {
      let path = "devices/\(Self.tokens(number).device)/activities/\(activity)"
      return try await ask(path, method: "PUT", body: #"{"token":"\#(token)"}"#).status
    }
    func send(_ event: String, _ body: String) async throws -> Int {
      let reply = try await ask("activities/match-42:\(event)", method: "POST", body: body)
      #expect(reply.status == 202, "\(reply.text)")
      let sent = try reply.decoded(Sent.self)
      try await waitUntil("all have their outcome") {
        try await ask("batches/\(sent.batchId)").decoded(Batch.self).state == "finished"
      }
      return sent.queued
    }

    #expect(try await ask("activities/match-42").status == 404)
    for number in 1...10 { #expect(try await register(number, Self.tokens(number).activity) == 201) }
    // The app gets a new token, and tells another activity.
    let renewed = HTTP2Site.token(77, prefix: "ac")
    #expect(try await register(1, renewed) == 200)
    #expect(try await register(2, HTTP2Site.token(78, prefix: "ac"), "order-1") == 201)
    #expect(try await ask("activities/match-42").decoded(Activity.self).devices == 10)

    #expect(try await send("update", #"{"contentState":{"goals":1,"ratio":0.10}}"#) == 10)
    // Two were gone.
    #expect(try await ask("activities/match-42").decoded(Activity.self).devices == 8)
    let (left, removed) = (Self.tokens(3).device, Self.tokens(4).device)
    #expect(try await ask("devices/\(left)/activities/match-42", method: "DELETE").status == 204)
    #expect(try await ask("devices/\(left)/activities/match-42", method: "DELETE").status == 404)
    #expect(try await ask("devices/\(removed)", method: "PUT", body: "{}").status == 201)
    #expect(try await ask("devices/\(removed)", method: "DELETE").status == 204)
    #expect(try await send("end", #"{"contentState":{"goals":3},"dismissalDate":1}"#) == 6)
    #expect(try await ask("activities/match-42").status == 404)
    #expect(try await ask("activities/match-42:update", method: "POST", body: #"{"contentState":{}}"#).status == 404)
    #expect(try await ask("activities/order-1").decoded(Activity.self).devices == 1)

    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    let taken = try await serve.site.taken(upstream)
    #expect(taken.allSatisfy { $0.type == "liveactivity" && $0.topic == "\(HTTP2Site.topic).push-type.liveactivity" })
    let counts = Dictionary(grouping: taken.compactMap(\.token)) { $0 }.mapValues(\.count)
    var wanted = [renewed: 2]
    for number in [2, 6, 7, 8, 9] { wanted[Self.tokens(number).activity] = 2 }
    for number in [3, 4] { wanted[Self.tokens(number).activity] = 1 }
    #expect(counts == wanted)
  }

  private static func start(_ rest: String = "") -> String {
    #"{"aps":{"event":"start","attributes-type":"Match","attributes":{"id":42},"content-state":{"goals":0},"#
      + #""alert":{"title":"Kick-off"}\#(rest)}}"#
  }

  @Test("activities are started on devices that are named, and by campaigns, which update and end them", .inProcess)
  func starting() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate(
      rules: "http2: { refuse: [ { prefixes: [dead], reason: Unregistered, timestamp: 4102444800000 } ] }")
    try serve.configure(upstream, apps: ["news"])
    // Half of them understand German.
    let devices = (0..<20).map { number in
      let language: String? = number.isMultiple(of: 2) ? "de" : nil
      return (token: Self.tokens(number).device, language: language, zone: String?.none, tags: Set<String>())
    }
    try await CampaignAudienceServeTests.register(serve, devices)
    let key = try await serve.key(["--scope", "send", "--scope", "read", "--scope", "devices", "--scope", "campaigns"])
    let service = try await serve.start()
    let campaigns = CampaignSite(service, key: key)
    func register(_ number: Int, _ place: String, _ token: String) async throws {
      let path = "/devices/\(Self.tokens(number).device)/\(place)"
      let answer = try await campaigns.call("PUT", path, #"{"token":"\#(token)"}"#)
      #expect(answer.status == 201, "\(answer.text)")
    }
    struct Started: Decodable {
      let queued: Int
      let withoutToken: [String]
    }
    func send(_ payload: String, _ audience: String, _ rest: String = "") async throws -> SentAccount.App {
      let audience = #","audience":{"source":"devices",\#(audience)}\#(rest)"#
      let path = try await campaigns.make(audience, payload: payload)
      try await campaigns.act(path, "start")
      #expect(try await campaigns.ended(path).state == "finished")
      return try await campaigns.account(path)
    }

    // Of 20 devices, 12 can start one: two of them are gone by now.
    for number in 0..<12 { try await register(number, "activity-types/Match", HTTP2Site.token(number, prefix: "5a")) }
    for number in [3, 4] {
      let path = "/devices/\(Self.tokens(number).device)/activity-types/Match"
      #expect(
        try await campaigns.call("PUT", path, #"{"token":"\#(HTTP2Site.token(number, prefix: "dead"))"}"#).status == 200
      )
    }
    let named = [1, 2, 15].map { "\"\(Self.tokens($0).device)\"" }.joined(separator: ",")
    let fields = #""attributes":{"id":7},"contentState":{},"alert":"Now","staleDate":4102444800"#
    let answer = try await campaigns.call("POST", "/activity-types/Match:start", #"{"devices":[\#(named)],\#(fields)}"#)
    #expect(answer.status == 202, "\(answer.text)")
    let started = try answer.decoded(Started.self)
    #expect(started.queued == 2)
    #expect(started.withoutToken == [Self.tokens(15).device])

    let german = #","variants":{"de":\#(Self.start(#","relevance-score":9"#))}"#
    let first = try await send(Self.start(), #""activityType":"Match""#, german)
    #expect(first.submitted == 12)
    #expect(first.accepted.confirmed == 10)
    #expect(first.rejected.total == 2)
    // Those that were gone are no longer among its members.
    let second = try await send(Self.start(), #""activityType":"Match","filter":{"languages":["de"]}"#)
    #expect(second.submitted == 5)
    for number in 0..<7 { try await register(number, "activities/match-42", HTTP2Site.token(number, prefix: "ac")) }
    let update = #"{"aps":{"event":"update","content-state":{"goals":1},"timestamp":1700000000}}"#
    #expect(try await send(update, #""activity":"match-42""#).accepted.confirmed == 7)
    let end = try await send(#"{"aps":{"event":"end"}}"#, #""activity":"match-42","filter":{"languages":["de"]}"#)
    #expect(end.accepted.confirmed == 4)

    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    let taken = try await serve.site.taken(upstream)
    #expect(taken.allSatisfy { $0.type == "liveactivity" && $0.topic == "\(HTTP2Site.topic).push-type.liveactivity" })
    let counts = Dictionary(grouping: taken.compactMap(\.token)) { $0 }.mapValues(\.count)
    var wanted: [String: Int] = [:]
    for number in 0..<12 where ![3, 4].contains(number) {
      wanted[HTTP2Site.token(number, prefix: "5a")] =
        1 + ([1, 2].contains(number) ? 1 : 0) + (number.isMultiple(of: 2) ? 1 : 0)
    }
    for number in 0..<7 { wanted[HTTP2Site.token(number, prefix: "ac")] = number.isMultiple(of: 2) ? 2 : 1 }
    #expect(counts == wanted)
  }

  @Test("a campaign that devices would ignore or not understand is refused before it is stored", .inProcess)
  func campaigns() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream, apps: ["news"])
    let key = try await serve.key(["--scope", "campaigns"])
    let service = try await serve.start()
    let campaigns = CampaignSite(service, key: key)
    let (type, shown) = (#""activityType":"Match""#, #""activity":"match""#)
    let update = #"{"aps":{"event":"update","content-state":{}}}"#
    let ahead = Int(Date().timeIntervalSince1970) + 3_600
    for (payload, audience, rest, sentence) in [
      (update, type, "", "the event \"start\""),
      (Self.start(), shown, "", "\"update\" or \"end\""),
      (Self.start(), #""activityType":"Other""#, "", "must be \"Other\""),
      (#"{"aps":{"event":"start"}}"#, type, "", "made with is missing"),
      (Self.start().replacing(#""alert""#, with: #""sound""#), type, "", "only with an alert"),
      (Self.start().replacing(#""content-state":{"goals":0},"#, with: ""), type, "", "activity shows is missing"),
      (Self.start(#","dismissal-date":9"#), type, "", "that ends is dismissed"),
      (Self.start(#","timestamp":\#(ahead)"#), type, "", "lies ahead"),
      (Self.start(#","stale-date":9"#), type, "", "later than the timestamp"),
      (Self.start(), type, #","pushType":"alert""#, "push type liveactivity"),
      (Self.start(), "\(type),\(shown)", "", "one activity, or for one type"),
      (Self.start(), #""activityType":"a/b""#, "", "letters, digits"),
      (Self.start(), type, #","variants":{"de":\#(update)}"#, "the event \"start\""),
    ] as [(String, String, String, String)] {
      let body = #"{"name":"a","payload":\#(payload),"audience":{"source":"devices",\#(audience)}\#(rest)}"#
      let answer = try await campaigns.call("POST", "/campaigns", body)
      let problem = try answer.decoded(ServeSite.Problem.self)
      #expect(problem.status == 400, "\(body): \(problem)")
      #expect(problem.detail.contains(sentence), "\(body): \(problem)")
    }
    let upload = #"{"name":"a","payload":\#(update),"audience":{"source":"upload",\#(shown)}}"#
    let answer = try await campaigns.call("POST", "/campaigns", upload)
    #expect(try answer.decoded(ServeSite.Problem.self).detail.contains("Only stored devices"), "\(answer.text)")
    // It begins when the time has come that its payload names.
    let at = Date(timeIntervalSince1970: Double(ahead)).ISO8601Format()
    _ = try await campaigns.make(
      #","audience":{"source":"devices",\#(type)},"sendAt":"\#(at)""#, payload: Self.start(#","timestamp":\#(ahead)"#))
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
  }

  @Test("what devices would ignore or not understand is refused before anything is sent", .inProcess)
  func refused() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream, apps: ["news"])
    let key = try await serve.key(["--scope", "send", "--scope", "devices"])
    let other = try await serve.key(["--scope", "send"])
    let service = try await serve.start()
    let (device, activity) = Self.tokens(1)
    func refusal(
      _ path: String, _ body: String, method: String = "POST", by key: String
    ) async throws -> ServeSite.Problem {
      try await serve.request(service.api, "/v1/apps/news/\(path)", key: key, body: body, method: method)
        .decoded(ServeSite.Problem.self)
    }
    let registration = #"{"token":"\#(activity)"}"#
    let made = try await serve.request(
      service.api, "/v1/apps/news/devices/\(device)/activities/a", key: key, body: registration, method: "PUT")
    #expect(made.status == 201, "\(made.text)")
    let ahead = Int(Date().timeIntervalSince1970) + 3_600
    for (path, body, status, sentence) in [
      ("activities/a:update", "{}", 400, "What the activity shows is missing"),
      ("activities/a:update", #"{"contentState":3}"#, 400, "must be an object"),
      ("activities/a:update", #"{"contentState":{},"timestamp":\#(ahead)}"#, 400, "lies ahead"),
      ("activities/a:update", #"{"contentState":{},"timestamp":9,"staleDate":9}"#, 400, "later than the timestamp"),
      ("activities/a:update", #"{"contentState":{},"dismissalDate":9}"#, 400, "no field"),
      ("activities/a:update", #"{"contentState":{},"priority":1}"#, 400, "5 or 10"),
      ("activities/a:update", #"{"contentState":{},"alert":3}"#, 422, "a string or an object"),
      ("activities/a:update", #"{"contentState":{"a":"\#(String(repeating: "a", count: 4_096))"}}"#, 422, "4096"),
      ("activities/a:end", #"{"dismissalDate":-1}"#, 400, "seconds since 1970"),
      ("activity-types/A:start", #"{"attributes":{},"contentState":{},"alert":"a"}"#, 400, "are missing"),
      (
        "activity-types/A:start", #"{"attributes":{},"contentState":{},"devices":["\#(device)"]}"#, 400, "with an alert"
      ),
      ("activity-types/A:start", #"{"attributes":3,"contentState":{},"devices":["\#(device)"]}"#, 400, "an object"),
      (
        "activity-types/A:start", #"{"attributes":{},"contentState":{},"alert":"a","devices":["\#(device)"]}"#, 404,
        "token for the type"
      ),
      (
        "activity-types/A:start",
        #"{"attributes":{},"contentState":{},"alert":"a","devices":[\#(Array(repeating: "\"\"", count: 501).joined(separator: ","))]}"#,
        400, "at most 500"
      ),
      ("activities/a%2Fb:end", "{}", 400, "letters, digits"),
      ("activities/b:end", "{}", 404, "activity"),
    ] as [(String, String, Int, String)] {
      let problem = try await refusal(path, body, by: key)
      #expect(problem.status == status, "\(path) \(body.prefix(80)): \(problem)")
      #expect(problem.detail.contains(sentence), "\(path) \(body.prefix(80)): \(problem)")
    }
    for (path, body, sentence) in [
      ("devices/\(device)/activities/a", #"{"token":"\#(device)"}"#, "the device's own token"),
      ("devices/\(device)/activities/a", #"{"token":"abcd"}"#, "cut off"),
      ("devices/abcd/activities/a", registration, "cut off"),
      ("devices/\(device)/activities/\(String(repeating: "a", count: 65))", registration, "at most 64"),
    ] {
      let problem = try await refusal(path, body, method: "PUT", by: key)
      #expect(problem.status == 400, "\(path): \(problem)")
      #expect(problem.detail.contains(sentence), "\(path): \(problem)")
    }
    #expect(try await refusal("devices/\(device)/activities/a", registration, method: "PUT", by: other).status == 403)
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    #expect(try await serve.site.taken(upstream).isEmpty)
  }
}
