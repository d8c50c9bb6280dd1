internal import Foundation
internal import Support
internal import Testing

/// What clients of the bridge are told when frames fail, answers are late or an app has trouble,
/// over TLS.
@Suite("What the bridge tells its clients", .timeLimit(.minutes(20)))
struct BridgeConclusionTests {
  private static let refusal = "refuse: [ { prefixes: [bad0], reason: BadDeviceToken } ]"

  /// The simulator never answers the notification with this number.
  private static func silence(_ number: UInt8) -> String {
    let digits = String(number, radix: 16)
    return #"no-answer: { tokens: ["00a0\#(String(repeating: "0", count: 60 - digits.count))\#(digits)"] }"#
  }

  private func stop(_ service: BridgeSite.Service) async {
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
  }

  /// A frame of command 1 with a token and a payload of these lengths.
  private static func frame(_ number: UInt8, token: Int = 32, payload: Int = 20) -> [UInt8] {
    let text = payload < 2 ? [] : Array(("{" + String(repeating: " ", count: payload - 2) + "}").utf8)
    let head: [UInt8] = [1, 0, 0, 0, number, 0x77, 0, 0, 0, 0, UInt8(token)]
    return head + [UInt8](repeating: number, count: token) + [UInt8(text.count >> 8), UInt8(text.count & 0xFF)] + text
  }

  @Test("frames that cannot be read keep the order of conclusions")
  func undecodable() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate(rules: "http2: { \(Self.refusal), delay: { fixed: 200ms } }")
    try bridge.configure(upstream)
    let service = try await bridge.start()
    let unreadable: [(bytes: [UInt8], answer: String)] = [
      (Self.frame(2, payload: 0), "080400000002"),
      (Self.frame(2, token: 31), "080500000002"),
      (Self.frame(2, token: 33), "080500000002"),
      (Self.frame(2, payload: 257), "080700000002"),
      // Only the beginning of a frame that is too long. Its identifier is not known.
      ([2, 0, 16, 0, 0], "088000000000"),
      ([9], "088000000000"),
    ]
    for (bytes, answer) in unreadable {
      let behindGood = try BridgeRawClient(
        bridge, port: service.bridge, bytes: BridgeRawClient.frame(1, 1) + bytes + BridgeRawClient.frame(1, 3))
      let behindBad = try BridgeRawClient(
        bridge, port: service.bridge, bytes: BridgeRawClient.frame(1, 1, isBad: true) + bytes)
      let beforeBad = try BridgeRawClient(
        bridge, port: service.bridge, bytes: bytes + BridgeRawClient.frame(1, 3, isBad: true))
      #expect(try await behindGood.connection().answer == answer)
      #expect(try await behindBad.connection().answer == "080800000001", "behind it: \(answer)")
      #expect(try await beforeBad.connection().answer == answer)
    }
    await stop(service)
    // Nothing behind an unreadable frame went upstream.
    let arrived = try await bridge.site.taken(upstream).compactMap(\.token)
    #expect(arrived.count == unreadable.count)
    #expect(arrived.allSatisfy { $0.hasSuffix("01") })
  }

  @Test("a client that closed its side hears how far its frames came, when an answer does not come")
  func halfClosed() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate(rules: "http2: { \(Self.silence(3)) }")
    try bridge.configure(upstream, bridge: "  conclusion: 1s", more: "shutdown: { drain: 1s }")
    let service = try await bridge.start()
    let frames = (1...4).flatMap { BridgeRawClient.frame(1, $0) }
    let client = try BridgeRawClient(bridge, port: service.bridge, bytes: frames, closes: true)
    #expect(try await client.connection().answer == "080a00000002")
    // Of command 0 there is nothing to hear.
    let simple = try BridgeRawClient(
      bridge, port: service.bridge, bytes: BridgeRawClient.frame(0, 3), closes: true)
    #expect(try await simple.connection().answer == "")
    let key = try await bridge.serve.key()
    try await waitUntil("both are gone") { try await bridge.counts(service, key: key).clients == 0 }
    let counts = try await bridge.counts(service, key: key)
    #expect(counts.responses == ["10": 1])
    #expect(counts.silentCloses == 0)
    await stop(service)
    upstream.simulator.send(SIGTERM)
    _ = await upstream.simulator.ending()
  }

  @Test("SIGTERM with an upstream that does not answer: status 10 comes before the drain is over")
  func shortDrain() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate(rules: "http2: { \(Self.silence(3)) }")
    try bridge.configure(upstream, more: "shutdown: { drain: 2s }")
    let service = try await bridge.start()
    let key = try await bridge.serve.key()
    let client = try BridgeRawClient(
      bridge, port: service.bridge, bytes: (1...4).flatMap { BridgeRawClient.frame(1, $0) })
    try await waitUntil("the first two are answered") {
      let metrics = try await bridge.serve.request(service.admin, "/metrics").text
      return metrics.contains(#"carillon_notifications_total{app="news",outcome="accepted",reason="confirmed"} 3"#)
    }
    #expect(try await bridge.counts(service, key: key).frames == 4)
    service.process.send(SIGTERM)
    let found = try await client.connection()
    // The other two are in the journal.
    #expect(found.answer == "080a00000004")
    #expect(found.end == "closed")
    _ = await service.process.ending()
    upstream.simulator.send(SIGTERM)
    _ = await upstream.simulator.ending()
  }

  private struct App: Decodable { let state: String }

  @Test("a gateway that is away makes clients wait, and sends none of them away")
  func outage() async throws {
    let bridge = try BridgeSite()
    let absent = try await bridge.site.simulate()
    try bridge.configure(absent, bridge: "  conclusion: 600s", app: "    patience: 1s")
    absent.simulator.send(SIGTERM)
    _ = await absent.simulator.ending()
    let service = try await bridge.start()
    let key = try await bridge.serve.key()
    let first = try BridgeRawClient(bridge, port: service.bridge, bytes: BridgeRawClient.frame(1, 1))
    try await waitUntil("the app is suspended") {
      try await bridge.serve.request(service.api, "/v1/apps/news", key: key).decoded(App.self).state == "suspended"
    }
    // It is suspended most of the time from now on: as long as its patience, and longer each time.
    let second = try BridgeRawClient(
      bridge, port: service.bridge, bytes: BridgeRawClient.frame(1, 2) + BridgeRawClient.probe(3))
    await second.isOpen()
    try await waitUntil("its frames have arrived") { try await bridge.counts(service, key: key).frames == 3 }
    let upstream = try await bridge.site.simulate(port: absent.port)
    #expect(try await second.connection().answer == "080200000003")
    #expect(!first.process.hasEnded)
    #expect(try await bridge.counts(service, key: key).responses == ["2": 1])
    await stop(service)
    #expect(try await first.connection().answer == "080a00000001")
    #expect(try await bridge.site.taken(upstream).count == 2)
  }

  @Test("an app that is paused takes notifications in, and keeps its clients")
  func paused() async throws {
    let bridge = try BridgeSite()
    let upstream = try await bridge.site.simulate()
    try bridge.configure(upstream, bridge: "  conclusion: 600s")
    let service = try await bridge.start()
    let key = try await bridge.serve.key(["--scope", "admin"])
    func act(_ action: String) async throws {
      let reply = try await bridge.serve.request(service.api, "/v1/apps/news:\(action)", key: key, method: "POST")
      #expect(reply.status == 202, "\(reply.text)")
    }
    try await act("pause")
    let client = try BridgeRawClient(
      bridge, port: service.bridge, bytes: BridgeRawClient.frame(1, 1) + BridgeRawClient.probe(2))
    try await waitUntil("its frames have arrived") { try await bridge.counts(service, key: key).frames == 2 }
    #expect(try await bridge.counts(service, key: key).responses.isEmpty)
    try await act("resume")
    #expect(try await client.connection().answer == "080200000002")
    await stop(service)
    #expect(try await bridge.site.taken(upstream).count == 1)
  }

  @Test("the breaker on bad tokens sends clients away with status 10, and new ones too")
  func breaker() async throws {
    let bridge = try BridgeSite()
    // So that all have been forwarded when the first is answered, and do not wait for each other:
    // otherwise a connection has one stream until something is accepted.
    let upstream = try await bridge.site.simulate(
      rules: "http2: { \(Self.refusal), delay: { fixed: 3s }, first-stream-limit: 1000 }")
    try bridge.configure(upstream, bridge: "  conclusion: 600s")
    let service = try await bridge.start()
    let waiting = try BridgeRawClient(bridge, port: service.bridge, bytes: [])
    await waiting.isOpen()
    let frames = (1...250 as ClosedRange<UInt8>).flatMap { BridgeRawClient.frame(1, $0, isBad: true) }
    let client = try BridgeRawClient(bridge, port: service.bridge, bytes: frames)
    #expect(try await client.connection().answer == "080800000001")
    #expect(try await waiting.connection().answer == "080affffffff")
    let late = try BridgeRawClient(bridge, port: service.bridge, bytes: BridgeRawClient.frame(1, 1))
    #expect(try await late.connection().answer == "080affffffff")
    #expect(service.process.errors.contains("call the device token bad"))
    service.process.send(SIGTERM)
    _ = await service.process.ending()
    #expect(try await bridge.site.taken(upstream).isEmpty)
  }
}
