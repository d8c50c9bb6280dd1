internal import Foundation
internal import Support
internal import Testing

/// Repeats on purpose and restarts, over TLS and through the store.
@Suite("Repeats through the bridge", .timeLimit(.minutes(20)))
struct BridgeRepeatServeTests {
  @Test("a cron job with a stale token, which sends nothing again: whoever is behind it hears in each run")
  func cronJob() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate(
      rules: "http2: { refuse: [ { prefixes: [bad0], reason: BadDeviceToken } ], delay: { fixed: 300ms } }")
    try bridge.configure(upstream)
    let service = try await bridge.start()
    let frames = (1...20).flatMap { BridgeRawClient.frame(1, $0, isBad: $0 == 10) }
    for _ in 1...3 {
      let client = try BridgeRawClient(bridge, port: service.bridge, bytes: frames)
      #expect(try await client.connection().answer == "08080000000a")
    }
    let key = try await bridge.serve.key()
    #expect(try await bridge.counts(service, key: key).alreadyDelivered == 0)
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    let arrived = try await bridge.site.taken(upstream).compactMap(\.token)
    let counts = Dictionary(arrived.map { ($0, 1) }, uniquingKeysWith: +)
    #expect(counts.count == 19)
    #expect(counts.values.allSatisfy { $0 == 3 }, "\(counts)")
  }

  @Test("a graceful restart while nothing is answered: each arrives once, and the client sends nothing twice")
  func restart() async throws {
    let bridge = try BridgeSite()
    let absent = try await bridge.site.simulate()
    try bridge.configure(absent, more: "shutdown: { drain: 2s }")
    absent.simulator.send(SIGTERM)
    _ = await absent.simulator.ending()
    let first = try await bridge.startWithOwnPort()
    let client = try bridge.client(first.bridge, count: 600, badEvery: 0)
    let key = try await bridge.serve.key()
    try await waitUntil("all are taken in") { try await bridge.counts(first, key: key).forwarded == 600 }
    first.process.send(SIGTERM)
    _ = await first.process.ending()
    let upstream = try await bridge.site.simulate(port: absent.port)
    let second = try await bridge.start()
    let report = try await BridgeClient.report(client)
    #expect(report.written == 600, "\(report)")
    second.process.send(SIGTERM)
    #expect(await second.process.ending().status == 0)
    let arrived = try await bridge.site.taken(upstream).compactMap(\.token)
    #expect(arrived.count == 600)
    #expect(Set(arrived).count == 600)
  }
}
