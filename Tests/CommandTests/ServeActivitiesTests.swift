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
