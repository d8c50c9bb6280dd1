internal import Foundation
internal import Support
internal import Synchronization
internal import Testing

/// `kill -9` under load, with clients that count what was acknowledged.
@Suite("carillon serve is killed under load", .timeLimit(.minutes(20)))
struct ServeLoadTests {
  /// What clients were told.
  private final class Acknowledged: Sendable {
    struct Batch: Sendable {
      let id: String
      let tokens: [String]
    }
    struct State: Sendable {
      /// Tokens by identifier.
      var singles: [String: String] = [:]
      var batches: [Batch] = []
      var count = 0
    }

    private let state = Mutex(State())
    var all: State { state.withLock { $0 } }

    func add(_ id: String, _ token: String) {
      state.withLock { state in
        state.singles[id] = token
        state.count += 1
      }
    }

    func add(_ batch: Batch) {
      state.withLock { state in
        state.batches.append(batch)
        state.count += batch.tokens.count
      }
    }
  }

  private static let lives = 3
  private static let batchSize = 200
  private static func isDead(_ token: String) -> Bool { token.hasPrefix("dead") }

  @Test(
    "what was acknowledged is accounted for after the restart, always",
    arguments: [("always", UInt64.random(in: 0 ... .max)), ("interval", UInt64.random(in: 0 ... .max))])
  func killed(sync: String, seed: UInt64) async throws {
    var random = SeededGenerator(seed: seed)
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate(
      rules: "http2: { refuse: [ { prefixes: [dead], reason: Unregistered } ], delay: { fixed: 20ms } }")
    try serve.configure(upstream, sync: sync)
    let key = try await serve.key()
    let acknowledged = Acknowledged()
    for life in 0..<Self.lives {
      let service = try await serve.start()
      let enough = acknowledged.all.count + Int.random(in: 300...2_500, using: &random)
      try await withThrowingTaskGroup(of: Void.self) { clients in
        for client in 0..<12 {
          clients.addTask {
            await Self.send(serve, service, key, acknowledged, isBatch: client % 4 == 0, number: life * 12 + client)
          }
        }
        try await waitUntil("\(enough) are acknowledged") { acknowledged.all.count >= enough }
        service.process.send(SIGKILL)
      }
      _ = await service.process.ending()
    }
    let service = try await serve.start()
    let all = acknowledged.all
    for (id, token) in all.singles {
      let found = try await serve.finished(id, service, key: key)
      #expect(
        Self.isDead(token) ? found.outcome == "rejected" : found.outcome == "accepted",
        "seed \(seed), sync \(sync): \(token): \(found)")
    }
    for batch in all.batches { try await check(batch, serve, service, key, "seed \(seed), sync \(sync)") }
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "seed \(seed), sync \(sync): \(ending)")
    let arrived = Set(try await serve.site.taken(upstream).compactMap(\.token))
    let good = (all.singles.values + all.batches.flatMap(\.tokens)).filter { !Self.isDead($0) }
    let missing = Set(good).subtracting(arrived)
    #expect(missing.isEmpty, "seed \(seed), sync \(sync): \(missing.count) of \(good.count) have not arrived")
  }

  private func check(
    _ batch: Acknowledged.Batch, _ serve: ServeSite, _ service: ServeSite.Service, _ key: String, _ context: String
  ) async throws {
    let account = try await serve.account(of: batch.id, service, key: key, ", \(context)")
    #expect(account.submitted == batch.tokens.count, "\(context): \(account)")
    #expect(account.rejected.total == batch.tokens.count(where: Self.isDead), "\(context): \(account)")
    #expect(account.accepted.confirmed == batch.tokens.count(where: { !Self.isDead($0) }), "\(context): \(account)")
  }

  /// Sends until the service does not answer any more.
  private static func send(
    _ serve: ServeSite, _ service: ServeSite.Service, _ key: String, _ acknowledged: Acknowledged, isBatch: Bool,
    number: Int
  ) async {
    let path = "/v1/apps/news/notifications" + (isBatch ? ":batch" : "")
    for index in 0..<100_000 {
      let tokens = (0..<(isBatch ? batchSize : 1)).map { line in
        HTTP2Site.token(
          (number << 20 | index) << 8 | line, prefix: (index + line) % 10 == 3 ? "dead" : "00")
      }
      let body = tokens.map(ServeSite.body).joined(separator: "\n")
      guard let reply = try? await serve.request(service.api, path, key: key, body: body) else { return }
      // A full queue refuses what it cannot hold.
      if reply.status == 429 { continue }
      guard reply.status == 202 else { return }
      if isBatch {
        guard let taken = try? reply.decoded(ServeSite.TakenBatch.self), taken.accepted == tokens.count else { return }
        acknowledged.add(Acknowledged.Batch(id: taken.batchId, tokens: tokens))
      } else {
        guard let queued = try? reply.decoded(ServeSite.Queued.self) else { return }
        acknowledged.add(queued.id, tokens[0])
      }
    }
  }
}
