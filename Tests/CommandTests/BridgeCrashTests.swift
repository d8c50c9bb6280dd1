internal import Carillon
internal import Foundation
internal import PushStore
internal import PushStoreSQLite
internal import PushTransport
internal import Support
internal import Testing

@Suite("The bridge and kill -9", .timeLimit(.minutes(20)))
struct BridgeCrashTests {
  private static let rules = """
    http2:
      refuse: [ { prefixes: [bad0], reason: BadDeviceToken } ]
      delay: { fixed: 100ms }
    """

  /// The numbers that one client sends.
  private struct Load {
    let first: Int
    let count: Int
    static let every = 1000

    var bad: [Int] { (0..<count).map { first + $0 }.filter { $0 % Self.every == Self.every / 2 } }
    var good: [Int] { (0..<count).map { first + $0 }.filter { $0 % Self.every != Self.every / 2 } }
  }

  /// A notification that the gateway accepted.
  private struct Arrival: Decodable {
    let token: String?
    let id: String
    /// By the monotonic clock, in milliseconds.
    let at: Int
    let refused: String?
  }

  /// In their order; a line that is not whole yet is left out.
  private static func arrivals(_ bridge: BridgeSite) throws -> [Arrival] {
    try bridge.site.place.read("truth.jsonl").split(separator: "\n")
      .compactMap { try? JSONDecoder().decode(Arrival.self, from: Data($0.utf8)) }.filter { $0.refused == nil }
  }

  @Test(
    "kill -9 under load with clients that resend: what arrives twice is listed as a possible duplicate",
    arguments: ["always", "interval"])
  func killed(sync: String) async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate(rules: Self.rules)
    // Two providers, each with a memory of its own.
    let expired = try CertificateMaker.makeAll(
      in: bridge.site.place.path("old"), topics: ["com.example.old"], at: 1_000_000_000)
    let old = try #require(expired.apps["com.example.old"])
    try bridge.configure(upstream, app: "    bridge: { clients: [\(old.certificate)] }", sync: sync)
    var service = try await bridge.startWithOwnPort()
    let loads = [Load(first: 0, count: 4000), Load(first: 10_000, count: 3000)]
    let clients = [
      try bridge.client(service.bridge, count: loads[0].count, badEvery: Load.every),
      try BridgeClient.start(
        in: bridge.site.place, port: service.bridge, authority: bridge.site.certificates.files.authority,
        certificate: old.certificate, key: try #require(old.key), count: loads[1].count, badEvery: Load.every,
        first: loads[1].first),
    ]
    func uptime() -> Int { Int(ProcessInfo.processInfo.systemUptime * 1_000) }
    let began = uptime()
    var kills: [Int] = []
    for life in 0..<3 {
      try await waitUntil("some have arrived") {
        let lines = (try? bridge.site.place.read("truth.jsonl"))?.utf8.count(where: { $0 == 10 }) ?? 0
        return lines > 800 * (life + 1) || clients.allSatisfy(\.hasEnded)
      }
      kills.append(uptime())
      service.process.send(SIGKILL)
      _ = await service.process.ending()
      service = try await bridge.start()
    }
    for (client, load) in zip(clients, loads) {
      let report = try await BridgeClient.report(client)
      let bad = load.bad.map { BridgeClient.token($0, isBad: true) }
      #expect(report.reported?.map(\.token).sorted() == bad.sorted())
    }
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")

    let arrived = try await bridge.site.taken(upstream)
    let good = loads.flatMap(\.good).map { BridgeClient.token($0, isBad: false) }
    #expect(Set(arrived.compactMap(\.token)) == Set(good))
    // What the bridge does not recognise gets another identifier: that is in no account. It
    // remembers what came to it ten seconds before a kill; on a busy machine that is not all since
    // the last answer. What the gateway has got in one life came in that one or in the one before.
    let strangers = Dictionary(grouping: try Self.arrivals(bridge)) { $0.token }.values.count { arrivals in
      let first = arrivals.map(\.at).min() ?? 0
      let life = kills.firstIndex { $0 >= first } ?? kills.count - 1
      let isRecent = kills[life] - (life < 2 ? began : kills[life - 2]) < 9_000
      return Set(arrivals.map(\.id)).count > 1 && isRecent
    }
    #expect(strangers == 0, "\(strangers) were sent again without need")
    let store = try SQLiteStore(path: bridge.site.place.path("store.db"), isVisitor: true)
    var doubted: Set<StoredNotificationID> = []
    for frames in try await store.forwardedFrames(since: StoreInstant(milliseconds: 0)).map(\.frames) {
      for line in frames.firstLine..<(frames.firstLine + UInt32(frames.count)) {
        let id = StoredNotificationID(run: frames.run, line: line)
        if try await store.notification(id).isDoubted { doubted.insert(id) }
      }
    }
    try store.close()
    let copies = Dictionary(grouping: arrived) { $0.id }.filter { $0.value.count > 1 }
    #expect(copies.count <= doubted.count, "\(copies.count) arrived twice, \(doubted.count) are listed")
    // Each life leaves at most one copy.
    #expect(copies.allSatisfy { $0.value.count <= 4 })
  }
}
