internal import Foundation
internal import Support
internal import Testing

/// A service whose folder was deleted under it.
@Suite("carillon serve without its folder", .timeLimit(.minutes(20)))
struct ServeDeletedFolderTests {
  enum Work: CaseIterable, Sendable {
    case idle, notifications, campaign, silentGateway, failedJournal
  }

  @Test("it ends soon after SIGTERM, and says what it could not write", arguments: Work.allCases)
  func ends(work: Work) async throws {
    let running = try await RunningServe(
      rules: work == .silentGateway ? "http2: { no-answer: { every: 1, taken: true } }" : "",
      configure: { try $0.configure($1, apps: ["news"], more: "shutdown: { announce: 0s, drain: 2s }") })
    let process = running.service.process
    defer { process.send(SIGKILL) }
    let site = running.campaigns
    switch work {
    case .idle, .failedJournal: break
    case .notifications, .silentGateway:
      let reply = try await running.call(
        "/v1/apps/news/notifications", body: ServeSite.body(HTTP2Site.token(1)), headers: ["Idempotency-Key": "a"])
      #expect(reply.status == 202, "\(reply.text)")
    case .campaign:
      let path = try await site.make(#","rateLimit":100"#)
      _ = try await site.upload(path, (0..<50_000).map { HTTP2Site.token($0) })
      try await site.act(path, "start")
      try await waitUntil("it sends") { try await site.campaign(path).progress.accepted > 0 }
    }
    try FileManager.default.removeItem(at: running.serve.site.place.url)
    if work == .failedJournal { try await failJournal(running) }
    // Requests that cannot be served any more must not hold up the end either.
    try await withThrowingTaskGroup(of: Void.self) { clients in
      if work != .idle {
        for client in 0..<8 {
          clients.addTask {
            _ = try? await running.call(
              "/v1/apps/news/notifications", body: ServeSite.body(HTTP2Site.token(100 + client)),
              headers: client % 2 == 0 ? ["Idempotency-Key": "k\(client)"] : [:])
          }
        }
      }
      process.send(SIGTERM)
      do { try await waitUntil("it ends", limit: .seconds(60)) { process.hasEnded } } catch {
        Issue.record("\(work): its threads: \(process.threads); it says: \(process.errors)")
        throw error
      }
      clients.cancelAll()
    }
    let ending = await process.ending()
    #expect(ending.status != 0, "\(work)")
    #expect(ending.status < 128, "\(work): \(ending)")
    // The log of the API's end may come after it.
    let says = ending.errors.split(separator: "\n").contains { $0.hasPrefix("carillon: ") }
    #expect(says, "\(work): \(ending)")
    running.upstream.simulator.send(SIGTERM)
    _ = await running.upstream.simulator.ending()
  }

  /// Sends until the journal needs another file, which it cannot make.
  private func failJournal(_ running: RunningServe) async throws {
    for number in 0..<2_000 {
      let lines = (0..<100).map { index in
        let text = (0..<200).map { _ in String(UInt64.random(in: 0 ... .max), radix: 36) }.joined()
        let token = HTTP2Site.token(number * 100 + index)
        return #"{"token":"\#(token)","payload":{"aps":{"alert":"\#(text)"}}}"#
      }
      let reply = try await running.call(
        "/v1/apps/news/notifications:batch", body: lines.joined(separator: "\n"))
      guard reply.status == 202 else { return #expect(reply.status == 507, "\(reply.text)") }
    }
    Issue.record("the journal needed no other file")
  }
}
