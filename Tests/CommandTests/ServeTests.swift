internal import Foundation
internal import Support
internal import Synchronization
internal import Testing

/// The tokens of acknowledged notifications, by identifier.
private final class Acknowledged: Sendable {
  private let tokens = Mutex<[String: String]>([:])

  var all: [String: String] { tokens.withLock { $0 } }
  func add(_ id: String, _ token: String) { tokens.withLock { $0[id] = token } }
}

@Suite("carillon serve", .timeLimit(.minutes(20)))
struct ServeTests {
  private static func refusing(_ more: String = "") -> String {
    "http2: { refuse: [ { prefixes: [dead], reason: Unregistered, timestamp: 1700000000123 } ]\(more) }"
  }

  @Test(
    "a notification and a batch get the outcomes that the gateway's record has", .inProcess,
    arguments: ["interval", "never"])
  func outcomes(sync: String) async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate(rules: Self.refusing())
    try serve.configure(upstream, sync: sync)
    let key = try await serve.key(["--scope", "send", "--scope", "read", "--scope", "feedback"])
    let service = try await serve.start()

    let good = try await serve.request(
      service.api, "/v1/apps/news/notifications", key: key, body: ServeSite.body(HTTP2Site.token(1)))
    #expect(good.status == 202, "\(good.text)")
    let accepted = try await serve.finished(try good.decoded(ServeSite.Queued.self).id, service, key: key)
    #expect(accepted.outcome == "accepted")
    #expect(accepted.reason == "confirmed")

    let gone = HTTP2Site.token(2, prefix: "dead")
    let refused = try await serve.request(
      service.api, "/v1/apps/news/notifications", key: key, body: ServeSite.body(gone))
    let rejected = try await serve.finished(try refused.decoded(ServeSite.Queued.self).id, service, key: key)
    #expect(rejected.outcome == "rejected")
    #expect(rejected.reason == "410 Unregistered")

    // 500 good ones, 20 that are gone, and 3 lines that cannot be sent.
    let lines =
      (0..<500).map { ServeSite.body(HTTP2Site.token(100 + $0)) }
      + (0..<20).map { ServeSite.body(HTTP2Site.token($0, prefix: "dead")) }
      + [ServeSite.body("none"), #"{"token":"ab"}"#, #"{"token":"ab","payload":{},"tokn":1}"#]
    let batch = try await serve.request(
      service.api, "/v1/apps/news/notifications:batch", key: key, body: lines.joined(separator: "\n"))
    #expect(batch.status == 202, "\(batch.text)")
    let taken = try batch.decoded(ServeSite.TakenBatch.self)
    #expect(taken.accepted == 520)
    #expect(taken.rejected == 3)
    #expect(taken.errors.map(\.line) == [521, 522, 523])
    let account = try await serve.account(of: taken.batchId, service, key: key)
    #expect(account.submitted == 520)
    #expect(account.accepted.confirmed == 500)
    #expect(account.rejected.byReason == ["410 Unregistered": 20])

    struct Feedback: Decodable {
      struct Item: Decodable { let token: String }
      let items: [Item]
      let nextCursor: String
    }
    let feedback = try await serve.request(service.api, "/v1/apps/news/feedback?limit=1000", key: key)
      .decoded(Feedback.self)
    #expect(Set(feedback.items.map(\.token)) == Set([gone] + (0..<20).map { HTTP2Site.token($0, prefix: "dead") }))
    let rest = try await serve.request(
      service.api, "/v1/apps/news/feedback?cursor=\(feedback.nextCursor)", key: key
    ).decoded(Feedback.self)
    #expect(rest.items.isEmpty)

    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
    let record = try await serve.site.taken(upstream)
    #expect(record.count == 501)
  }

  @Test("what was acknowledged has its outcome after kill -9, and each accepted one has arrived")
  func killed() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate(
      rules: Self.refusing(", delay: { fixed: 100ms }"))
    try serve.configure(upstream, sync: "always")
    let key = try await serve.key(["--scope", "send", "--scope", "read", "--scope", "feedback"])
    let acknowledged = Acknowledged()
    for life in 0..<3 {
      let service = try await serve.start()
      let enough = 150 * (life + 1)
      try await withThrowingTaskGroup(of: Void.self) { clients in
        for client in 0..<8 {
          clients.addTask {
            for index in 0..<2_000 {
              let isDead = index % 10 == 3
              let token = HTTP2Site.token((life * 8 + client) * 2_000 + index, prefix: isDead ? "dead" : "00")
              let reply = try? await serve.request(
                service.api, "/v1/apps/news/notifications", key: key, body: ServeSite.body(token))
              guard let reply, reply.status == 202, let queued = try? reply.decoded(ServeSite.Queued.self) else {
                return
              }
              acknowledged.add(queued.id, token)
            }
          }
        }
        try await waitUntil("\(enough) are acknowledged") { acknowledged.all.count >= enough }
        service.process.send(SIGKILL)
      }
      _ = await service.process.ending()
    }
    let service = try await serve.start()
    let all = acknowledged.all
    var accepted: Set<String> = []
    for (id, token) in all {
      let notification = try await serve.finished(id, service, key: key)
      if notification.outcome == "accepted" {
        accepted.insert(token)
      } else {
        #expect(notification.reason == "410 Unregistered", "\(notification)")
        #expect(token.hasPrefix("dead"))
      }
    }
    #expect(accepted.allSatisfy { !$0.hasPrefix("dead") })
    // Whatever was called gone is in the list of gone devices.
    struct Feedback: Decodable {
      struct Item: Decodable { let token: String }
      let items: [Item]
    }
    let list = try await serve.request(service.api, "/v1/apps/news/feedback?limit=1000", key: key)
      .decoded(Feedback.self)
    #expect(Set(list.items.map(\.token)).isSuperset(of: all.values.filter { $0.hasPrefix("dead") }))
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
    let arrived = Set(try await serve.site.taken(upstream).compactMap(\.token))
    #expect(accepted.subtracting(arrived).isEmpty)
    #expect(Set(all.values.filter { !$0.hasPrefix("dead") }) == accepted)
  }

  @Test("SIGHUP adds and removes apps; a configuration that is wrong changes nothing", .inProcess)
  func reload() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream)
    let key = try await serve.key()
    let service = try await serve.start()
    func status(_ app: String) async throws -> Int {
      try await serve.request(service.api, "/v1/apps/\(app)", key: key).status
    }
    try await waitUntil("the first apps are there") { try await status("chat") == 200 }
    #expect(try await status("late") == 404)
    try serve.configure(upstream, apps: ["news", "late"])
    service.process.send(SIGHUP)
    try await waitUntil("the apps are others") {
      let (late, chat) = (try await status("late"), try await status("chat"))
      return late == 200 && chat == 404
    }
    let reply = try await serve.request(
      service.api, "/v1/apps/late/notifications", key: key, body: ServeSite.body(HTTP2Site.token(1)))
    #expect(reply.status == 202, "\(reply.text)")
    try serve.site.place.write("apps: 7\n", to: "carillon.yaml")
    service.process.send(SIGHUP)
    try await waitUntil("the mistake is logged") { service.process.errors.contains("stays as it was") }
    #expect(try await status("late") == 200)
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
    #expect(try await serve.site.taken(upstream).count == 1)
  }

  @Test("who has no key, the wrong scope or the wrong app learns no more than that", .inProcess)
  func keys() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream)
    let reader = try await serve.key(["--scope", "read"])
    let chat = try await serve.key(["--scope", "send", "--app", "chat"])
    let service = try await serve.start()
    let path = "/v1/apps/news/notifications"
    let body = ServeSite.body(HTTP2Site.token(1))
    func problem(_ path: String, _ key: String?, _ body: String?, status: Int) async throws -> ServeSite.Problem {
      let reply = try await serve.request(service.api, path, key: key, body: body)
      #expect(reply.status == status, "\(reply.text)")
      let problem = try reply.decoded(ServeSite.Problem.self)
      #expect(problem.status == status)
      #expect(problem.instance == path)
      return problem
    }
    let missing = try await problem(path, nil, body, status: 401)
    #expect(missing.action?.contains("carillon key create") == true)
    _ = try await problem(path, "car_000000000000_" + String(repeating: "0", count: 64), body, status: 401)
    _ = try await problem(path, String(reader.dropLast()) + (reader.hasSuffix("0") ? "1" : "0"), body, status: 401)
    _ = try await problem(path, reader, body, status: 403)
    _ = try await problem(path, chat, body, status: 404)
    _ = try await problem("/v1/apps/none/notifications", reader, body, status: 404)
    _ = try await problem("/v1/nothing", reader, nil, status: 404)
    _ = try await problem("\(path)/01a2028a-f598-798e-94da-407300000001", reader, nil, status: 404)

    // A key that was revoked stops working.
    try await serve.revoke(chat)
    try await waitUntil("the key is refused") {
      try await serve.request(service.api, "/v1/apps/chat/notifications", key: chat, body: body).status == 401
    }
    service.process.send(SIGTERM)
    _ = await service.process.ending()
    upstream.simulator.send(SIGTERM)
    _ = await upstream.simulator.ending()
  }

  @Test("a request that cannot be served is answered with the field that is wrong", .inProcess)
  func malformed() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream)
    let key = try await serve.key()
    let service = try await serve.start()
    let token = HTTP2Site.token(1)
    let cases: [(body: String, status: Int, pointer: String?)] = [
      ("", 400, nil), ("[1]", 400, nil), (#"{"token":"ab""#, 400, nil), (#"{"payload":{}}"#, 400, "/token"),
      (#"{"token":"zz","payload":{}}"#, 400, "/token"), (#"{"token":7,"payload":{}}"#, 400, "/token"),
      (#"{"token":"\#(token)"}"#, 400, "/payload"), (#"{"token":"\#(token)","payload":"x"}"#, 400, "/payload"),
      (#"{"token":"\#(token)","payload":{},"colour":1}"#, 400, "/colour"),
      (#"{"token":"\#(token)","payload":{},"payload":{}}"#, 400, "/payload"),
      (#"{"token":"\#(token)","payload":{"aps":{}},"priority":7}"#, 400, "/priority"),
      (#"{"token":"\#(token)","payload":{"aps":{}},"pushType":"loud"}"#, 400, "/pushType"),
      (#"{"token":"\#(token)","payload":{"aps":{}},"expiration":-1}"#, 400, "/expiration"),
      (#"{"token":"\#(token)","payload":{"aps":{"alert":"\#(String(repeating: "x", count: 5000))"}}}"#, 422, nil),
    ]
    for (body, status, pointer) in cases {
      let reply = try await serve.request(service.api, "/v1/apps/news/notifications", key: key, body: body)
      #expect(reply.status == status, "\(body.prefix(80)): \(reply.text)")
      let problem = try reply.decoded(ServeSite.Problem.self)
      #expect(problem.errors?.first?.pointer == pointer, "\(body.prefix(80)): \(reply.text)")
      #expect(problem.detail.hasSuffix("."), "\(problem.detail)")
    }
    let huge = try await serve.request(
      service.api, "/v1/apps/news/notifications", key: key, body: String(repeating: " ", count: 17 << 20))
    #expect(huge.status == 413, "\(huge.text)")
    let ready = try await serve.request(service.admin, "/readyz")
    #expect(ready.status == 200)
    service.process.send(SIGTERM)
    _ = await service.process.ending()
    let record = try await serve.site.taken(upstream)
    #expect(record.isEmpty)
  }
}
