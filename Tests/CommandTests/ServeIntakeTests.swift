internal import Foundation
internal import PushTransport
internal import Support
internal import Synchronization
internal import Testing

/// What `carillon serve` acknowledges does not depend on its gateway.
@Suite("carillon serve takes notifications in", .timeLimit(.minutes(20)))
struct ServeIntakeTests {
  private struct App: Decodable {
    struct Connections: Decodable { let open: Int }
    struct Queue: Decodable {
      let notifications: Int
      let bytes: Int
      let oldestSeconds: Double
    }
    let state: String
    let reason: String?
    let connections: Connections
    let queue: Queue
    let inFlight: Int

    var waiting: Int { queue.notifications + inFlight }
  }

  private let serve: ServeSite
  private static let scopes = ["--scope", "send", "--scope", "read", "--scope", "admin"]

  init() throws { serve = try ServeSite() }

  private func app(_ service: ServeSite.Service, _ key: String) async throws -> App {
    try await serve.request(service.api, "/v1/apps/news", key: key).decoded(App.self)
  }

  /// - Returns: the batch's identifier.
  private func post(_ tokens: Range<Int>, _ service: ServeSite.Service, _ key: String) async throws -> String {
    let lines = tokens.map { ServeSite.body(HTTP2Site.token($0)) }
    let reply = try await serve.request(
      service.api, "/v1/apps/news/notifications:batch", key: key, body: lines.joined(separator: "\n"))
    try #require(reply.status == 202, "\(reply.text)")
    let taken = try reply.decoded(ServeSite.TakenBatch.self)
    #expect(taken.queued == tokens.count)
    #expect(taken.accepted == taken.queued)
    return taken.batchId
  }

  private func allConfirmed(
    _ batches: [String], of count: Int, _ service: ServeSite.Service, _ key: String
  ) async throws {
    var confirmed = 0
    for batch in batches { confirmed += try await serve.account(of: batch, service, key: key).accepted.confirmed }
    #expect(confirmed == count)
  }

  private func end(_ service: ServeSite.Service) async {
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
  }

  private func stop(_ upstream: HTTP2Site.Service) async {
    upstream.simulator.send(SIGTERM)
    _ = await upstream.simulator.ending()
  }

  @Test("20,000 are acknowledged without a gateway, survive kill -9, and arrive exactly once")
  func absentGateway() async throws {
    let absent = try await serve.site.simulate()
    try serve.configure(absent, sync: "always", apps: ["news"])
    await stop(absent)
    let key = try await serve.key(Self.scopes)
    var service = try await serve.start()
    var batches: [String] = []
    for part in 0..<20 { batches.append(try await post(part * 1_000..<(part + 1) * 1_000, service, key)) }
    #expect(try await app(service, key).waiting == 20_000)
    let single = try await serve.request(
      service.api, "/v1/apps/news/notifications", key: key, body: ServeSite.body(HTTP2Site.token(20_000)))
    let id = try single.decoded(ServeSite.Queued.self).id
    #expect(try await state(of: id, service, key) == "queued")

    service.process.send(SIGKILL)
    _ = await service.process.ending()
    service = try await serve.start()
    try await waitUntil("all of them are queued again") { try await app(service, key).waiting == 20_001 }
    #expect(try await app(service, key).state == "running")
    #expect(try await state(of: id, service, key) == "queued")

    let upstream = try await serve.site.simulate(port: absent.port)
    try await allConfirmed(batches, of: 20_000, service, key)
    _ = try await serve.finished(id, service, key: key)
    #expect(try await app(service, key).waiting == 0)
    #expect(try await app(service, key).queue.bytes == 0)
    await end(service)
    let record = try await serve.site.taken(upstream)
    #expect(record.count == 20_001)
    #expect(Set(record.compactMap(\.token)).count == 20_001)
  }

  private func state(of id: String, _ service: ServeSite.Service, _ key: String) async throws -> String {
    try await serve.request(service.api, "/v1/apps/news/notifications/\(id)", key: key)
      .decoded(ServeSite.Notification.self).state
  }

  @Test("notifications that differ in their expiration share a run, and keep it through kill -9")
  func expirations() async throws {
    let absent = try await serve.site.simulate()
    try serve.configure(absent, sync: "always", apps: ["news"])
    await stop(absent)
    let key = try await serve.key(Self.scopes)
    var service = try await serve.start()
    var ids: [String] = []
    var expected: [String: String?] = [:]
    let longest = String(repeating: "c", count: 62)
    for number in 0..<40 {
      let token = HTTP2Site.token(number)
      // As of clients that say "an hour from now", each in another second; 0 and none among them.
      let expiration = number == 0 ? nil : number == 1 ? 0 : 4_000_000_000 + number
      expected[token] = expiration.map { "\($0)" }
      let more =
        (expiration.map { #","expiration":\#($0)"# } ?? "") + (number % 2 == 0 ? #","collapseId":"\#(longest)""# : "")
      let reply = try await serve.request(
        service.api, "/v1/apps/news/notifications", key: key,
        body: #"{"token":"\#(token)","payload":{"aps":{"alert":"Hello"}}\#(more)}"#)
      try #require(reply.status == 202, "\(reply.text)")
      ids.append(try reply.decoded(ServeSite.Queued.self).id)
    }
    // A collapse identifier of the longest kind leaves no room for an expiration of its own.
    let crowded = HTTP2Site.token(40)
    let settings = #""expiration":4000000040,"collapseId":"\#(longest)64""#
    let reply = try await serve.request(
      service.api, "/v1/apps/news/notifications", key: key,
      body: #"{"token":"\#(crowded)","payload":{"aps":{"alert":"Hello"}},\#(settings)}"#)
    try #require(reply.status == 202, "\(reply.text)")
    expected[crowded] = "4000000040"
    let runs = Set(ids.map { $0.replacing("-", with: "").prefix(24) })
    #expect(runs.count == 1, "\(runs)")
    service.process.send(SIGKILL)
    _ = await service.process.ending()
    service = try await serve.start()
    let upstream = try await serve.site.simulate(port: absent.port)
    for id in ids { _ = try await serve.finished(id, service, key: key) }
    _ = try await serve.finished(try reply.decoded(ServeSite.Queued.self).id, service, key: key)
    await end(service)
    let record = try await serve.site.taken(upstream)
    #expect(record.count == 41)
    for taken in record {
      let token = try #require(taken.token)
      #expect(taken.expiration == expected[token] ?? nil, "\(taken)")
    }
    #expect(Set(record.map { $0.collapse?.count ?? 0 }) == [0, 62, 64])
  }

  @Test("a refused credential suspends the app; with the right one everything arrives", .inProcess)
  func refusedCredential() async throws {
    try ProviderKey.make(keyIdentifier: HTTP2Site.keyIdentifier, teamIdentifier: HTTP2Site.team).write(
      to: serve.site.place.path("wrong.p8"))
    let upstream = try await serve.site.simulate()
    let wrong = "wrong.p8, key-id: \(HTTP2Site.keyIdentifier)"
    try serve.configure(upstream, apps: ["news"], keyFile: wrong)
    let key = try await serve.key(Self.scopes)
    let service = try await serve.start()
    var batches = [try await post(0..<500, service, key)]
    try await waitUntil("the app is suspended") { try await app(service, key).state == "suspended" }
    #expect(
      try await app(service, key).reason
        == "the gateway refuses this app: 403 InvalidProviderToken; check its key, key ID and team ID, "
        + "and this machine's clock")
    for part in 1..<10 { batches.append(try await post(part * 500..<(part + 1) * 500, service, key)) }
    #expect(try await app(service, key).waiting == 5_000)
    try await waitUntil("its connections are closed") { try await app(service, key).connections.open == 0 }

    // The operator's word is not enough: the credential is still refused.
    let reply = try await serve.request(service.api, "/v1/apps/news:resume", key: key, body: "")
    #expect(reply.status == 202, "\(reply.text)")
    try await waitUntil("the app is suspended again") { try await app(service, key).state == "suspended" }

    try serve.configure(upstream, apps: ["news"])
    service.process.send(SIGHUP)
    try await allConfirmed(batches, of: 5_000, service, key)
    #expect(try await app(service, key).state == "running")
    await end(service)
    let record = try await serve.site.taken(upstream)
    #expect(record.count == 5_000)
    #expect(Set(record.compactMap(\.token)).count == 5_000)
  }

  @Test("a pause holds back what is taken in, also through kill -9, until the operator resumes")
  func pause() async throws {
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream, sync: "always", apps: ["news"])
    let key = try await serve.key(Self.scopes)
    let sender = try await serve.key(["--scope", "send"])
    var service = try await serve.start()
    var batches = [try await post(0..<10, service, key)]
    try await allConfirmed(batches, of: 10, service, key)
    let forbidden = try await serve.request(service.api, "/v1/apps/news:pause", key: sender, body: "")
    #expect(forbidden.status == 403, "\(forbidden.text)")
    for _ in 0..<2 {
      let reply = try await serve.request(service.api, "/v1/apps/news:pause", key: key, body: "")
      #expect(reply.status == 202, "\(reply.text)")
    }
    #expect(try await app(service, key).state == "paused")
    batches.append(try await post(10..<3_000, service, key))
    #expect(try await app(service, key).waiting == 2_990)
    service.process.send(SIGKILL)
    _ = await service.process.ending()
    service = try await serve.start()
    #expect(try await app(service, key).state == "paused")
    try await waitUntil("all of them are queued again") { try await app(service, key).waiting == 2_990 }
    for _ in 0..<2 {
      let reply = try await serve.request(service.api, "/v1/apps/news:resume", key: key, body: "")
      #expect(reply.status == 202, "\(reply.text)")
    }
    try await allConfirmed(batches, of: 3_000, service, key)
    await end(service)
    let record = try await serve.site.taken(upstream)
    #expect(record.count == 3_000)
  }

  @Test("an app that is removed with notifications goes on with them when it is added again", .inProcess)
  func removedApp() async throws {
    let absent = try await serve.site.simulate()
    try serve.configure(absent)
    await stop(absent)
    let key = try await serve.key(Self.scopes)
    let service = try await serve.start()
    let batch = try await post(0..<3_000, service, key)
    try serve.configure(absent, apps: ["chat"])
    service.process.send(SIGHUP)
    try await waitUntil("the log says what stays") {
      service.process.errors.contains("stay in the journal until the app is added again")
    }
    #expect(try await serve.request(service.api, "/v1/apps/news", key: key).status == 404)
    try serve.configure(absent)
    service.process.send(SIGHUP)
    try await waitUntil("the app is back") {
      try await serve.request(service.api, "/v1/apps/news", key: key).status == 200
    }
    let upstream = try await serve.site.simulate(port: absent.port)
    try await allConfirmed([batch, try await post(3_000..<3_100, service, key)], of: 3_100, service, key)
    #expect(try await app(service, key).state == "running")
    await end(service)
    let record = try await serve.site.taken(upstream)
    #expect(record.count == 3_100)
    #expect(Set(record.compactMap(\.token)).count == 3_100)
  }

  @Test("a full queue is 429, and is taken in again when the gateway is there", .inProcess)
  func fullQueue() async throws {
    let absent = try await serve.site.simulate()
    try serve.configure(absent, apps: ["news"], settings: "queue: { bytes: 256KiB }")
    await stop(absent)
    let key = try await serve.key(Self.scopes)
    let service = try await serve.start()
    var count = 0
    var refusal: ServeSite.Reply?
    while refusal == nil, count < 100_000 {
      let lines = (count..<(count + 100)).map { ServeSite.body(HTTP2Site.token($0)) }
      let reply = try await serve.request(
        service.api, "/v1/apps/news/notifications:batch", key: key, body: lines.joined(separator: "\n"))
      if reply.status == 202 { count += 100 } else { refusal = reply }
    }
    #expect(refusal?.status == 429, "\(refusal?.text ?? "")")
    #expect(refusal?.retryAfter == 1)
    #expect(count >= 1_000)
    let bytes = try await app(service, key).queue.bytes
    #expect(bytes >= 256 << 10)
    #expect(bytes < 512 << 10)
    let upstream = try await serve.site.simulate(port: absent.port)
    try await waitUntil("it is taken in again") {
      let reply = try await serve.request(
        service.api, "/v1/apps/news/notifications", key: key, body: ServeSite.body(HTTP2Site.token(count)))
      return reply.status == 202
    }
    try await waitUntil("everything has its outcome") { try await app(service, key).waiting == 0 }
    await end(service)
    let record = try await serve.site.taken(upstream)
    #expect(Set(record.compactMap(\.token)).count == count + 1)
  }

  @Test(
    "clients whose batches a full queue refuses come back as told, and all that is acknowledged is accounted for",
    .inProcess)
  func clientsThatComeBack() async throws {
    let absent = try await serve.site.simulate()
    try serve.configure(absent, apps: ["news"], settings: "queue: { bytes: 256KiB }")
    await stop(absent)
    let key = try await serve.key(Self.scopes)
    let service = try await serve.start()
    let (clientCount, batchCount, lineCount) = (4, 15, 200)
    let client = PatientClient(serve: serve, service: service, key: key)
    let (upstream, batches) = try await withThrowingTaskGroup(of: [String].self) { clients in
      for number in 0..<clientCount {
        clients.addTask {
          let first = number * batchCount * lineCount
          return try await client.post(first: first, batchCount: batchCount, lineCount: lineCount)
        }
      }
      try await waitUntil("the queue refuses every client") { client.refusalCount >= clientCount }
      let upstream = try await serve.site.simulate(port: absent.port)
      return (upstream, try await clients.reduce(into: []) { $0 += $1 })
    }
    let total = clientCount * batchCount * lineCount
    #expect(Set(batches).count == clientCount * batchCount)
    var submitted = 0
    for batch in batches { submitted += try await serve.account(of: batch, service, key: key).submitted }
    #expect(submitted == total)
    try await allConfirmed(batches, of: total, service, key)
    await end(service)
    let record = try await serve.site.taken(upstream)
    #expect(record.count == total)
    #expect(Set(record.compactMap(\.token)).count == total)
  }
}

/// A client that comes back when a full queue tells it to.
private final class PatientClient: Sendable {
  private let serve: ServeSite
  private let service: ServeSite.Service
  private let key: String
  private let refusals = Atomic<Int>(0)

  init(serve: ServeSite, service: ServeSite.Service, key: String) {
    (self.serve, self.service, self.key) = (serve, service, key)
  }

  var refusalCount: Int { refusals.load(ordering: .relaxed) }

  /// - Returns: the batches that were acknowledged.
  func post(first: Int, batchCount: Int, lineCount: Int) async throws -> [String] {
    var taken: [String] = []
    while taken.count < batchCount {
      let start = first + taken.count * lineCount
      let lines = (start..<start + lineCount).map { ServeSite.body(HTTP2Site.token($0)) }
      let reply = try await serve.request(
        service.api, "/v1/apps/news/notifications:batch", key: key, body: lines.joined(separator: "\n"),
        headers: ["Content-Type": "application/x-ndjson"])
      if reply.status == 202 {
        let batch = try reply.decoded(ServeSite.TakenBatch.self)
        try #require(batch.queued == lineCount, "\(reply.text)")
        taken.append(batch.batchId)
      } else {
        try #require(reply.status == 429, "\(reply.text)")
        refusals.wrappingAdd(1, ordering: .relaxed)
        try await Task.sleep(for: .seconds(try #require(reply.retryAfter)))
      }
    }
    return taken
  }
}
