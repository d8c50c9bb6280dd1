internal import Foundation
internal import Support
internal import Testing

/// A disk that is full, and has room again.
@Suite("carillon serve on a full disk", .timeLimit(.minutes(20)))
struct ServeDiskTests {
  private struct Taken: Decodable {
    let batchId: String
    let accepted: Int
  }

  private struct Batch: Decodable {
    struct Account: Decodable {
      struct Accepted: Decodable { let confirmed: Int }
      let accepted: Accepted
    }
    let state: String
    let account: Account
  }

  /// Payloads that do not become smaller when they are compressed.
  private static func batch(_ number: Int) -> (tokens: [String], body: String) {
    let tokens = (0..<100).map { HTTP2Site.token(number * 100 + $0) }
    let lines = tokens.map { token in
      let text = (0..<30).map { _ in String(UInt64.random(in: 0 ... .max), radix: 36) }.joined()
      return #"{"token":"\#(token)","payload":{"aps":{"alert":"\#(text)"}}}"#
    }
    return (tokens, lines.joined(separator: "\n"))
  }

  /// Sends until the service takes nothing more.
  private func fill(
    _ serve: ServeSite, _ service: ServeSite.Service, _ key: String
  ) async throws -> (
    batches: [String], tokens: [String], refusal: ServeSite.Reply
  ) {
    var (batches, tokens) = ([String](), [String]())
    for number in 0..<2_000 {
      let (added, body) = Self.batch(number)
      let reply = try await serve.request(service.api, "/v1/apps/news/notifications:batch", key: key, body: body)
      guard reply.status == 202 else { return (batches, tokens, reply) }
      batches.append(try reply.decoded(Taken.self).batchId)
      tokens += added
    }
    throw CampaignSite.Unexpected(text: "200,000 notifications did not fill the disk")
  }

  /// What holds while the disk is full, and after it has room.
  ///
  /// - Returns: what was acknowledged before the disk was full.
  private func check(
    _ serve: ServeSite, _ service: ServeSite.Service, makeRoom: () async throws -> Void
  ) async throws
    -> Set<String>
  {
    let key = try await serve.key()
    let (batches, tokens, refusal) = try await fill(serve, service, key)
    #expect(refusal.status == 507, "\(refusal.text)")
    #expect(try refusal.decoded(ServeSite.Problem.self).action?.contains("Make room") == true)
    let path = "/v1/apps/news/notifications"
    try await waitUntil("it is not ready") { try await serve.request(service.admin, "/readyz").status == 503 }
    #expect(try await serve.request(service.admin, "/healthz").status == 200)
    // It refuses, and still answers questions.
    for _ in 0..<2 {
      let again = try await serve.request(
        service.api, path, key: key, body: ServeSite.body(HTTP2Site.token(1)), headers: ["Idempotency-Key": "once"])
      #expect(again.status == 507, "\(again.text)")
    }
    #expect(try await serve.request(service.api, "/v1/apps", key: key).status == 200)
    try await makeRoom()
    try await waitUntil("it is ready again") {
      guard !service.process.hasEnded else { throw CampaignSite.Unexpected(text: service.process.errors) }
      return (try? await serve.request(service.admin, "/readyz").status) == 200
    }
    let single = try await serve.request(
      service.api, path, key: key, body: ServeSite.body(HTTP2Site.token(1 << 30)), headers: ["Idempotency-Key": "once"])
    #expect(single.status == 202, "\(single.text)")
    #expect(
      try await serve.finished(try single.decoded(ServeSite.Queued.self).id, service, key: key).outcome == "accepted")
    for batch in batches {
      try await waitUntil("the batch \(batch) has ended") {
        let reply = try await serve.request(service.api, "/v1/apps/news/batches/\(batch)", key: key)
        try #require(reply.status == 200, "\(reply.text)")
        let found = try reply.decoded(Batch.self)
        return found.state == "finished" && found.account.accepted.confirmed == 100
      }
    }
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
    #expect(ending.output.split(separator: "\n").count == 1, "one ready line: \(ending.output)")
    return Set(tokens)
  }

  @Test("507 while the journal cannot be written; with room again everything acknowledged has its outcome")
  func fileSizeLimit() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream, apps: ["news"])
    // In units of 512 bytes. The store needs less.
    let service = try await serve.start(preparation: "ulimit -S -f 4000 && exec")
    let tokens = try await check(serve, service) {
      let raised = try await ChildProcess.run(
        ["--pid", "\(service.process.identifier)", "--fsize=unlimited:"], program: "prlimit")
      #expect(raised.status == 0, "\(raised)")
    }
    let missing = tokens.subtracting(try await serve.site.taken(upstream).compactMap(\.token))
    #expect(!tokens.isEmpty && missing.isEmpty, "\(missing.count) of \(tokens.count) have not arrived")
  }
}
