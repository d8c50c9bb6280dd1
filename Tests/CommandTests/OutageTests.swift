internal import Foundation
internal import NIOCore
internal import PushTransport
internal import Support
internal import Testing

/// A service that accepts nothing for some time: nothing is rejected, the command says why it
/// waits, and a later process delivers everything.
@Suite("Outages", .serialized, .timeLimit(.minutes(20)))
struct OutageTests {
  /// The service's behaviour, and the cause in the account.
  struct Case: Sendable, CustomTestStringConvertible {
    let transport: String
    let rules: String
    let cause: String
    var testDescription: String { "\(transport), \(rules)" }
  }

  private static let cases = [
    Case(
      transport: "binary", rules: "close: { after: 0 }", cause: "the gateway closed the connection without an answer"),
    Case(transport: "binary", rules: "reset: { after: 0 }", cause: "the connection was reset"),
    Case(
      transport: "http2", rules: "http2: { cut: { after: 0, how: close } }",
      cause: "the gateway closed the connection without an answer"),
    Case(
      transport: "http2", rules: "http2: { goaway: { after: 0, reason: Shutdown } }",
      cause: "the service ended the connection with GOAWAY 0 NO_ERROR, Shutdown"),
    Case(
      transport: "http2", rules: "http2: { goaway: { after: 0, reason: Midnight } }",
      cause: "the service ended the connection with GOAWAY 0 NO_ERROR, Midnight"),
    Case(
      transport: "http2", rules: "http2: { refuse: { every: 1, reason: ServiceUnavailable } }",
      cause: "503 ServiceUnavailable"),
    Case(
      transport: "http2", rules: "http2: { refuse: { every: 1, reason: OutForLunch, status: 503 } }",
      cause: "503 OutForLunch"),
  ]

  private let place: Workplace
  private let certificates: CertificateFixture

  init() throws {
    place = try Workplace()
    certificates = try CertificateFixture(in: place)
    try place.write(#"{"aps":{"alert":"Hello"}}"#, to: "hello.json")
  }

  private struct Service {
    let simulator: ChildProcess
    let ports: [String: Int]
    let record: String
  }

  /// Starts a simulator of both protocols that records in a file of its own.
  private func simulate(_ rules: String, record: String) async throws -> Service {
    try place.write(rules + "\n", to: "\(record).yaml")
    let simulator = try ChildProcess(
      [
        "simulate", "--gateway-port", "0", "--feedback-port", "0", "--http2-port", "0", "--json", "--rules",
        "\(record).yaml", "--record", record,
      ] + certificates.server, directory: place.url)
    let line = try #require(await simulator.line(0), "the simulator did not start: \(simulator.errors)")
    let ports = [
      "binary": try #require(Int(line.firstMatch(of: /"gateway":(\d+)/)?.1 ?? "")),
      "http2": try #require(Int(line.firstMatch(of: /"http2":(\d+)/)?.1 ?? "")),
    ]
    return Service(simulator: simulator, ports: ports, record: record)
  }

  /// Ends the service and returns how many different tokens it accepted.
  private func acceptedTokenCount(_ service: Service) async throws -> Int {
    service.simulator.send(SIGTERM)
    _ = await service.simulator.ending()
    let lines = try place.read(service.record).split(separator: "\n").filter { !$0.contains("\"refused\":") }
    return Set(lines.compactMap { $0.firstMatch(of: /"token":"([0-9a-f]+)"/)?.1 }).count
  }

  private func configure(_ transport: String, port: Int, more: String = "", file: String) throws {
    let app = try #require(certificates.files.apps[CertificateFixture.topic])
    try place.write(
      """
      apps:
        - id: news
          gateway: localhost:\(port)
          transport: \(transport)
          trust: \(certificates.files.authority)
          credential: { certificate: \(app.certificate), key: \(app.key ?? "") }
          \(more)
      """, to: file)
  }

  private func writeTokens(_ count: Int) throws {
    try place.write((1...count).map { HTTP2Site.token($0) + "\n" }.joined(), to: "tokens.txt")
  }

  private let arguments = [
    "send", "--config", "carillon.yaml", "--payload", "hello.json", "--tokens", "tokens.txt", "--json",
  ]

  private func send(_ arguments: [String]) async throws -> Ending {
    try await ChildProcess.run(arguments, directory: place.url)
  }

  @Test(
    "patience ends an outage without a rejection, and with a journal a resume delivers everything", arguments: cases)
  func outage(_ outage: Case) async throws {
    let count = 2_000
    try writeTokens(count)
    let down = try await simulate(outage.rules, record: "down.jsonl")
    try configure(
      outage.transport, port: try #require(down.ports[outage.transport]), more: "patience: 2s", file: "carillon.yaml")
    let stopped = try await send(arguments + ["--journal", "journal"])
    #expect(stopped.status == 1, "\(stopped)")
    let reason = "no progress for 2 s: \(outage.cause)"
    #expect(stopped.errors.contains("carillon: news stopped: \(reason)."), "\(stopped)")
    #expect(stopped.errors.contains("unsent notifications stay in the journal"), "\(stopped)")
    let account = try #require(SentAccount(stopped)?.apps["news"], "\(stopped)")
    // A lane takes in only what it can send soon, so the rest of the audience may not have been
    // read.
    #expect(account.submitted > 0, "\(stopped)")
    #expect(account.cancelled + account.unknown == account.submitted, "\(stopped)")
    #expect(account.notes.first == "stopped: \(reason)", "\(stopped)")
    #expect(account.notes.contains { $0.hasPrefix("\(outage.cause) (") && $0.contains(" times within ") }, "\(stopped)")
    #expect(account.neverRead.isEmpty == (account.submitted == count), "\(stopped)")
    #expect(try await acceptedTokenCount(down) == 0)

    let well = try await simulate("answer-delay: 0ms", record: "well.jsonl")
    try configure(outage.transport, port: try #require(well.ports[outage.transport]), file: "mended.yaml")
    let resumed = try await send(["send", "--resume", "--journal", "journal", "--config", "mended.yaml", "--json"])
    let delivered = try #require(SentAccount(resumed)?.apps["news"], "\(resumed)")
    #expect(resumed.status == 0, "\(resumed)")
    #expect(delivered.submitted == count, "\(resumed)")
    #expect(delivered.acceptedTotal == count, "\(resumed)")
    #expect(try await acceptedTokenCount(well) == count)
  }

  @Test("without a journal what is left is cancelled, and the account says how much of the audience was never read")
  func neverRead() async throws {
    let count = 60_000
    try writeTokens(count)
    let down = try await simulate("close: { after: 0 }", record: "down.jsonl")
    // A ring of 64 KiB holds about a thousand notifications.
    try configure(
      "binary", port: try #require(down.ports["binary"]), more: "patience: 2s\n    window: { bytes: 64KiB }",
      file: "carillon.yaml")
    let stopped = try await send(arguments)
    let account = try #require(SentAccount(stopped)?.apps["news"], "\(stopped)")
    #expect(stopped.status == 1, "\(stopped)")
    #expect(account.submitted < count / 2, "\(stopped)")
    #expect(account.sum == account.submitted, "\(stopped)")
    #expect(account.rejected.total == 0, "\(stopped)")
    let left = count - account.submitted
    #expect(
      account.neverRead == [
        SentAccount.NeverRead(
          tokens: "tokens.txt", fromLine: account.submitted + 1, bytes: left * 65, ofBytes: count * 65)
      ], "\(stopped)")
    let table = try await send(arguments.dropLast())
    let unread =
      /news: never read: about [\d,]+ of 60,000 lines of tokens.txt, from line [\d,]+ on \(\d\d\.\d % of its bytes\)/
    #expect(table.output.contains(unread), "\(table)")
    #expect(table.output.contains("news: the gateway closed the connection without an answer ("), "\(table)")
    down.simulator.send(SIGTERM)
    _ = await down.simulator.ending()
  }

  @Test("when all that one connection gets is 503, another one delivers")
  func oneSickMachine() async throws {
    let count = 300
    try writeTokens(count)
    let rules = "http2: { bursts: { every: 100000, length: 99900, connections: 1 } }"
    let service = try await simulate(rules, record: "record.jsonl")
    try configure(
      "http2", port: try #require(service.ports["http2"]), more: "connections: { max: 1 }", file: "carillon.yaml")
    let sent = try await send(arguments)
    let account = try #require(SentAccount(sent)?.apps["news"], "\(sent)")
    #expect(sent.status == 0, "\(sent)")
    #expect(account.acceptedTotal == count, "\(sent)")
    #expect(try await acceptedTokenCount(service) == count)
  }

  @Test("while it waits, the log has the cause and the time of the next try; an interrupt ends the wait")
  func waiting() async throws {
    try writeTokens(100)
    let down = try await simulate("close: { after: 0 }", record: "down.jsonl")
    try configure("binary", port: try #require(down.ports["binary"]), file: "carillon.yaml")
    let sender = try ChildProcess(arguments, directory: place.url)
    let line = try Regex(
      "news: waiting, the gateway "
        + "(?:closed the connection without an answer|closes every connection, even one that carries nothing) "
        + #"since \d+ s; (?:next try in \d+ s|trying again)\n"#)
    try await waitUntil("the log has the cause") { sender.hasEnded || sender.errors.contains(line) }
    sender.send(SIGINT)
    let ending = await sender.ending()
    #expect(ending.status == 1, "\(ending)")
    #expect(ending.errors.contains(line), "\(ending)")
    let account = try #require(SentAccount(ending)?.apps["news"], "\(ending)")
    #expect(account.submitted == 100, "\(ending)")
    #expect(account.sum == 100, "\(ending)")
    #expect(account.rejected.total == 0, "\(ending)")
    down.simulator.send(SIGTERM)
    _ = await down.simulator.ending()
  }

  @Test("a service that answers HTTP/2 with garbage is reported as such, and nothing is rejected")
  func garbage() async throws {
    let group = LoopGroup(threads: 1)
    var server = TLSServerConfiguration(
      credential: try Credential.load(certificates.files.server, validAt: nil), clients: .none)
    server.applicationProtocols = [ApplicationProtocol.http2]
    let listener = try await TLSListener.bind(
      host: "127.0.0.1", port: 0, group: group, context: try TLSContext(server: server)
    ) { channel, tls in
      try channel.pipeline.syncOperations.addHandler(GarbageHandler(tls))
    }
    try writeTokens(500)
    try configure("http2", port: listener.port, more: "patience: 2s", file: "carillon.yaml")
    let stopped = try await send(arguments)
    await listener.close()
    await group.shutDown()
    #expect(stopped.status == 1, "\(stopped)")
    #expect(stopped.errors.contains("news stopped: no progress for 2 s: the peer broke a rule of HTTP/2"), "\(stopped)")
    let account = try #require(SentAccount(stopped)?.apps["news"], "\(stopped)")
    #expect(account.submitted == 500, "\(stopped)")
    #expect(account.cancelled + account.unknown == 500, "\(stopped)")
  }
}

/// Sends bytes that are not HTTP/2 as soon as the handshake is complete.
private final class GarbageHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let tls: TLSHandler

  init(_ tls: TLSHandler) { self.tls = tls }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard let event = event as? TLSEvent, case .handshakeCompleted = event else { return }
    let bytes = Array("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".utf8)
    unsafe bytes.withUnsafeBytes { unsafe tls.send($0) }
  }
}
