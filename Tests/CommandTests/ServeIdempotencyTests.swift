internal import Foundation
internal import Support
internal import Synchronization
internal import Testing

/// The bodies of answers, by number of the request.
private final class Answers: Sendable {
  private let bodies = Mutex<[Int: Data]>([:])

  var count: Int { bodies.withLock { $0.count } }
  func add(_ index: Int, _ body: Data) { bodies.withLock { $0[index] = body } }
  subscript(index: Int) -> Data? { bodies.withLock { $0[index] } }
}

@Suite("Idempotency keys of carillon serve", .timeLimit(.minutes(20)))
struct ServeIdempotencyTests {
  private static let path = "/v1/apps/news/notifications"

  @Test(
    "a repeated request is answered as before and sends nothing, also after a restart; another body is refused",
    .inProcess)
  func replay() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream)
    let key = try await serve.key()
    let other = try await serve.key()
    var service = try await serve.start()
    func post(_ token: Int, _ name: String, key: String, path: String = Self.path) async throws -> ServeSite.Reply {
      try await serve.request(
        service.api, path, key: key, body: ServeSite.body(HTTP2Site.token(token)), headers: ["Idempotency-Key": name])
    }
    let first = try await post(1, "a", key: key)
    #expect(first.status == 202)
    #expect(first.headers["idempotent-replayed"] == nil)
    for round in 0..<2 {
      let again = try await post(1, "a", key: key)
      #expect(again.status == 202)
      #expect(again.body == first.body)
      #expect(again.headers["idempotent-replayed"] == "true")
      #expect(again.headers["content-type"] == first.headers["content-type"])
      #expect(try await post(2, "a", key: key).status == 422)
      // Whatever was sent with this key to another address is another request.
      #expect(try await post(1, "a", key: key, path: Self.path + ":batch").status == 422)
      guard round == 0 else { break }
      service.process.send(SIGTERM)
      #expect(await service.process.ending().status == 0)
      service = try await serve.start()
    }
    // Keys of other callers are other keys.
    #expect(try await post(3, "a", key: other).status == 202)
    // What was not carried out can be tried again.
    let wrong = try await serve.request(
      service.api, Self.path, key: key, body: #"{"token":"ab"}"#, headers: ["Idempotency-Key": "b"])
    #expect(wrong.status == 400)
    #expect(try await post(4, "b", key: key).status == 202)
    #expect(try await post(5, "two words", key: key).status == 400)
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    let record = try await serve.site.taken(upstream)
    #expect(record.compactMap(\.token).sorted() == [1, 3, 4].map { HTTP2Site.token($0) })
  }

  @Test("the answer to a repeated request has the headers of the first", .inProcess)
  func headers() async throws {
    let running = try await RunningServe.withCampaigns()
    let body = #"{"name":"sale","payload":{"aps":{"alert":"Hello"}}}"#
    func post() async throws -> ServeSite.Reply {
      try await running.call("/v1/apps/news/campaigns", body: body, headers: ["Idempotency-Key": "c"])
    }
    let first = try await post()
    #expect(first.status == 201, "\(first.text)")
    let again = try await post()
    #expect(again.headers["idempotent-replayed"] == "true")
    for name in ["location", "etag", "content-type"] {
      #expect(first.headers[name] != nil, "\(name)")
      #expect(again.headers[name] == first.headers[name], "\(name)")
    }
    let location = try #require(first.headers["location"])
    #expect(try await running.call(location).headers["etag"] == again.headers["etag"])
    try await running.end()
  }

  @Test("of many at once one is carried out", .inProcess)
  func concurrent() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream)
    let key = try await serve.key()
    let service = try await serve.start()
    for round in 0..<20 {
      let replies = try await withThrowingTaskGroup(of: ServeSite.Reply.self) { clients in
        for _ in 0..<8 {
          clients.addTask {
            try await serve.request(
              service.api, Self.path, key: key, body: ServeSite.body(HTTP2Site.token(round)),
              headers: ["Idempotency-Key": "round-\(round)"])
          }
        }
        return try await clients.reduce(into: []) { $0.append($1) }
      }
      #expect(replies.allSatisfy { $0.status == 202 || $0.status == 409 }, "\(replies.map(\.text))")
      let carriedOut = replies.filter { $0.status == 202 && $0.headers["idempotent-replayed"] == nil }
      #expect(carriedOut.count == 1)
      #expect(Set(replies.filter { $0.status == 202 }.map(\.body)).count == 1)
    }
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    #expect(try await serve.site.taken(upstream).count == 20)
  }

  @Test("a repetition of a request that is still running is told to come back, and then gets its answer", .inProcess)
  func running() async throws {
    // An answer waits for the journal's next commit.
    let running = try await RunningServe(configure: { try $0.configure($1, sync: "interval, interval: 5s") })
    @Sendable func post(_ name: String) async throws -> ServeSite.Reply {
      try await running.call(
        Self.path, body: ServeSite.body(HTTP2Site.token(1)), headers: ["Idempotency-Key": name])
    }
    var refused: ServeSite.Reply?
    var (sent, name) = (0, "")
    // A commit may come between the two.
    while refused == nil, sent < 20 {
      sent += 1
      name = "round-\(sent)"
      let replies = try await withThrowingTaskGroup(of: ServeSite.Reply.self) { [name] clients in
        for _ in 0..<2 { clients.addTask { try await post(name) } }
        return try await clients.reduce(into: []) { $0.append($1) }
      }
      #expect(replies.contains { $0.status == 202 })
      refused = replies.first { $0.status == 409 }
    }
    let problem = try #require(refused)
    #expect(problem.retryAfter == 1)
    #expect(try problem.decoded(ServeSite.Problem.self).title == "Still running", "\(problem.text)")
    let again = try await post(name)
    #expect(again.status == 202, "\(again.text)")
    #expect(again.headers["idempotent-replayed"] == "true", "\(again.text)")
    #expect(try await running.end().count == sent)
  }

  @Test("kill -9 under load: no key is carried out twice, and one that was answered is answered again")
  func killed() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream, sync: "always")
    let key = try await serve.key()
    let answers = Answers()
    @Sendable func post(_ index: Int, _ service: ServeSite.Service) async throws -> ServeSite.Reply {
      try await serve.request(
        service.api, Self.path, key: key, body: ServeSite.body(HTTP2Site.token(index)),
        headers: ["Idempotency-Key": "n\(index)"])
    }
    let service = try await serve.start()
    let perClient = 500
    try await withThrowingTaskGroup(of: Void.self) { clients in
      for client in 0..<6 {
        clients.addTask {
          for index in client * perClient..<(client + 1) * perClient {
            // Once the service is killed, nobody answers.
            guard let reply = try? await post(index, service) else { return }
            #expect(reply.status == 202, "\(reply.text)")
            answers.add(index, reply.body)
          }
        }
      }
      clients.addTask {
        try await waitUntil("enough is acknowledged") { answers.count >= 200 }
        service.process.send(SIGKILL)
      }
      try await clients.waitForAll()
    }
    _ = await service.process.ending()
    let restarted = try await serve.start()
    var doubtful: Set<String> = []
    var carriedOut: Set<String> = []
    for client in 0..<6 {
      let answered = (0..<perClient).filter { answers[client * perClient + $0] != nil }
      // Those that were answered, the one that was under way, and the next.
      for offset in 0..<min(perClient, answered.count + 2) {
        let index = client * perClient + offset
        let reply = try await post(index, restarted)
        if let body = answers[index] {
          #expect(reply.status == 202)
          #expect(reply.body == body)
          #expect(reply.headers["idempotent-replayed"] == "true")
        }
        if reply.status == 202 {
          carriedOut.insert(HTTP2Site.token(index))
        } else {
          #expect(reply.status == 409, "\(reply.text)")
          #expect(try reply.decoded(ServeSite.Problem.self).action != nil)
          doubtful.insert(HTTP2Site.token(index))
        }
      }
    }
    restarted.process.send(SIGTERM)
    #expect(await restarted.process.ending().status == 0)
    let ids = try await serve.site.taken(upstream).reduce(into: [String: Set<String>]()) {
      $0[$1.token ?? "", default: []].insert($1.id)
    }
    // A resend after the crash has the same identifier.
    #expect(ids.values.allSatisfy { $0.count == 1 })
    #expect(carriedOut.isSubset(of: ids.keys))
    #expect(carriedOut.union(doubtful).isSuperset(of: ids.keys))
    #expect(doubtful.count <= 6)
  }
}
