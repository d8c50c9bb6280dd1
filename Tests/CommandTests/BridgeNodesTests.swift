internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

/// Their bridge is at the one that leads; clients try the address of each.
@Suite("Old providers of several services on one database", .timeLimit(.minutes(10)))
struct BridgeNodesTests {
  enum Move: CaseIterable {
    case killed
    case stopped
    case drained
    case ended
  }

  private static let every = 500
  private static let count = 3_000

  private static let rules = """
    http2:
      refuse: [ { prefixes: [bad0], reason: BadDeviceToken } ]
      delay: { fixed: 50ms }
    """

  private static func isBad(_ number: Int) -> Bool { number % every == every / 2 }

  @Test(
    "the bridge moves: a client goes on at the other service, and what arrives twice is listed",
    arguments: Move.allCases)
  func moving(how move: Move) async throws {
    let store = try ServeSite.store(in: try PostgreSQLServer.shared.get())
    let settings = "    durability: cluster\n    rate-limit: 400/s"
    let first = try BridgeSite()
    let upstream = try await first.site.simulate(rules: Self.rules)
    try first.configure(upstream, app: settings, more: store + "\ncluster: { node: first, lease: 3s }")
    let one = try await first.startWithOwnPort()
    let second = try BridgeSite(besides: first)
    try second.configure(upstream, app: settings, more: store + "\ncluster: { node: second, lease: 3s }")
    let port = OwnPort.random()
    try second.listen(on: port)
    let two = try await second.serve.start()
    #expect(!two.process.errors.contains("this service leads"))
    let key = try await first.serve.key(["--scope", "admin", "--scope", "read"])

    let client = try first.client(one.bridge, count: Self.count, badEvery: Self.every, other: port)
    try await waitUntil("some have arrived") {
      let lines = (try? first.site.place.read("truth.jsonl"))?.utf8.count(where: { $0 == 10 }) ?? 0
      return lines > 500 || client.hasEnded
    }
    #expect(!client.hasEnded, "\(one.process.errors) \(two.process.errors)")
    switch move {
    case .killed: one.process.send(SIGKILL)
    case .stopped: one.process.send(SIGSTOP)
    case .drained:
      let answer = try await second.serve.request(two.api, "/v1/nodes/first:drain", key: key, body: "")
      #expect(answer.status == 202, "\(answer.text)")
    case .ended: one.process.send(SIGTERM)
    }
    try await waitUntil("the other one leads", limit: .seconds(60)) {
      two.process.errors.contains("this service leads")
    }
    if move == .stopped {
      one.process.send(SIGCONT)
      #expect(await one.process.ending().status != 0)
    }
    let report = try await BridgeClient.report(client)
    let bad = (0..<Self.count).filter(Self.isBad).map { BridgeClient.token($0, isBad: true) }
    let reported = (report.reported ?? []).map(\.token)
    // One that goes on tells clients that it ends, and that what it has gets its outcome later.
    #expect(move == .stopped ? Set(reported).isSubset(of: bad) : reported.sorted() == bad.sorted(), "\(report)")

    let good = (0..<Self.count).filter { !Self.isBad($0) }.map { BridgeClient.token($0, isBad: false) }
    var (outcomes, cursor): ([String: ServeOutcomesTests.Outcome], String) = ([:], "0")
    try await waitUntil("all have their outcome", limit: .seconds(60)) {
      let path = "/v1/apps/news/outcomes?limit=10000&cursor=\(cursor)"
      let page = try await second.serve.request(two.api, path, key: key).decoded(ServeOutcomesTests.Page.self)
      cursor = page.items.last?.cursor ?? cursor
      outcomes.merge(page.items.map { ($0.token, $0) }) { $0.possibleDuplicate == true ? $0 : $1 }
      return outcomes.count >= Self.count
    }
    #expect(Set(outcomes.values.filter { $0.outcome == "accepted" }.map(\.token)) == Set(good))
    #expect(outcomes.values.filter { $0.bridge != true }.isEmpty)
    let arrived = try await first.site.taken(upstream).compactMap(\.token)
    #expect(Set(arrived) == Set(good))
    let twice = Dictionary(grouping: arrived) { $0 }.filter { $0.value.count > 1 }.keys
    let unlisted = twice.filter { outcomes[$0]?.possibleDuplicate != true }
    #expect(unlisted.isEmpty, "\(unlisted.count) of \(twice.count) have arrived twice and are not listed")
    if move == .drained || move == .ended { #expect(twice.isEmpty) }
    two.process.send(SIGTERM)
    #expect(await two.process.ending().status == 0)
    if move == .drained || move == .ended {
      if move == .drained { one.process.send(SIGTERM) }
      #expect(await one.process.ending().status == 0)
    }
  }
}
