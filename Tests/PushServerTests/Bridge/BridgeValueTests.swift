internal import Carillon
internal import Foundation
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushServer
@testable internal import PushService

@Suite("The bridge's settings and limits")
struct BridgeValueTests {
  private static func configuration(_ bridge: String, app: String = "") throws -> ServerConfiguration {
    try ServerConfiguration.parse(
      """
      journal: { directory: journal }
      bridge: \(bridge)
      apps:
        - id: news
          topic: com.example.news
          transport: http2
          credential: { key: AuthKey_ABC123DEFG.p8, team-id: DEF123GHIJ }
      \(app)
      """, file: "/etc/carillon.yaml")
  }

  @Test("every key is read")
  func keys() throws {
    let read = try Self.configuration(
      """
      { listen: "0.0.0.0:2195", feedback: "[::1]:2196", certificate: bridge.pem, key: bridge.key, client-ca: ca.pem, \
      minimum-tls: "1.0", connections: { max: 10, per-app: 5, handshakes-per-second: 3, stalled: 9s }, \
      memory: { notifications: 2048, duration: 1m, size: 5MiB }, conclusion: 5s, payload: 2KiB }
      """, app: "    bridge: { clients: [old.pem, \"sha256:\(String(repeating: "ab", count: 32))\"] }")
    let bridge = try #require(read.bridge)
    #expect(bridge.listen == Listen(host: "0.0.0.0", port: 2195))
    #expect(bridge.feedback == Listen(host: "::1", port: 2196))
    #expect(bridge.certificate == "/etc/bridge.pem")
    #expect(bridge.clientAuthority == "/etc/ca.pem")
    #expect(bridge.minimumTLS == .tls10)
    #expect(bridge.connectionLimit == 10)
    #expect(bridge.connection.limitPerApp == 5)
    #expect(bridge.handshakeRate == 3)
    #expect(bridge.connection.memory.count == 2048)
    #expect(bridge.connection.memory.age == .seconds(60))
    #expect(bridge.connection.memory.byteCount == 5 << 20)
    #expect(bridge.stallTime == .seconds(9))
    #expect(bridge.connection.session.window.conclusionTime == .seconds(5))
    #expect(bridge.connection.session.limits.enhancedPayload == 2048)
    #expect(
      read.tenants[0].bridgeClients == ["/etc/old.pem", "sha256:" + String(repeating: "ab", count: 32)])
  }

  @Test("mistakes are named", arguments: ["{ listen: \"0.0.0.0:2195\" }", "{ listen: 7, certificate: a.pem }"])
  func mistakes(_ bridge: String) {
    #expect(throws: ConfigurationError.self) { try Self.configuration(bridge) }
  }

  @Test("new connections of one address are held until their turn, those of others are not")
  func handshakes() {
    var limit = HandshakeLimit(rate: 2)
    var now = Instant.start
    var turns = (0..<71).map { _ in limit.turn("a", now: now) }
    #expect(turns.count { $0 == .now } == 10)
    #expect(turns[10] == .at(now + .milliseconds(500)))
    #expect(turns[69] == .at(now + .seconds(30)))
    #expect(turns[70] == .never)
    let other = limit.turn("b", now: now)
    #expect(other == .now)
    now = now + .seconds(30)
    turns = (0..<2).map { _ in limit.turn("a", now: now) }
    #expect(turns == [.at(now + .milliseconds(500)), .at(now + .seconds(1))])
  }

  @Test("300 connections of one address at the defaults all get their turn")
  func defaultHandshakes() {
    var limit = HandshakeLimit(rate: 20)
    let turns = (0..<300).map { _ in limit.turn("a", now: .start) }
    #expect(!turns.contains(.never))
  }

  @Test("held and closed connections are counted, and logged once a minute")
  func handshakeEpisodes() {
    var episodes = HandshakeEpisodes()
    let later = Instant.start + .seconds(60)
    let due = [
      episodes.add(.now, now: .start), episodes.add(.at(later), now: .start), episodes.add(.never, now: .start),
      episodes.add(.at(later), now: later),
    ]
    #expect(due == [false, true, false, true])
    #expect(episodes.delayedCount == 2)
    #expect(episodes.turnedAwayCount == 1)
  }

  @Test("a reader is stalled when nothing changes for the time, however long it takes in all")
  func readingProgress() {
    var now = Instant.start + .seconds(1000)
    var state = 0
    var progress = ReadingProgress(limit: .seconds(60), state, now: now)
    for step in 0..<100 {
      now = now + .seconds(50)
      state += 1
      let isStalled = progress.isStalled(state, isBusy: false, now: now)
      #expect(!isStalled, "after \(step) steps")
    }
    // The store is slow: the reader cannot do anything about it.
    now = now + .seconds(100)
    let found = [
      progress.isStalled(state, isBusy: true, now: now),
      progress.isStalled(state, isBusy: false, now: now + .seconds(59)),
      progress.isStalled(state, isBusy: false, now: now + .seconds(60)),
    ]
    #expect(found == [false, false, true])
  }

  @Test("an expiration is rounded up, a little")
  func expirations() {
    let now: UInt32 = 1_700_000_000
    var steps: Set<UInt32> = []
    for seconds in stride(from: 1, through: 86_400 * 30, by: 1009) as StrideThrough<Int> {
      let expiration = now + UInt32(seconds)
      let rounded = BridgePreparation.rounded(expiration, now: now)
      #expect((expiration...expiration + UInt32(seconds / 16)).contains(rounded))
      steps.insert(rounded)
    }
    #expect(steps.count < 600)
    #expect(BridgePreparation.rounded(5, now: now) == 5)
    #expect(BridgePreparation.rounded(.max, now: now) == .max)
  }

  @Test("what the store has of an outcome is the same answer")
  func storedAnswers() {
    let refusal = ProviderRefusal(status: 400, reason: .badDeviceToken)
    for (outcome, answer) in [
      (Outcome.accepted(.confirmed), FrameAnswer.accepted),
      (.rejected(.provider(refusal)), .refused(.invalidToken)),
      (.rejected(.provider(ProviderRefusal(status: 410, reason: .unregistered))), .accepted),
      (.rejected(.status(.invalidTokenSize)), .refused(.invalidTokenSize)),
      (.rejected(.payloadTooLarge), .refused(.invalidPayloadSize)), (.unknown, .refused(.processingError)),
    ] {
      let (state, detail) = (outcome.kind.rawValue, outcome.detail)
      #expect(FrameAnswer(state: state, detail: detail) == answer, "\(outcome)")
    }
  }
}
