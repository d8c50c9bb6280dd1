internal import Foundation
internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// A client from outside this project: Python's `ssl` module, blocking sockets, frames written byte
/// by byte.
@Suite(.timeLimit(.minutes(20)))
struct ForeignClientTests {
  /// Connects, sends the given bytes the given number of times, reads until the end, and prints
  /// what it received.
  private static let script = """
    import binascii, socket, ssl, sys
    port, ca, cert, key, version, frames, times = sys.argv[1:8]
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(cert, key)
    context.minimum_version = context.maximum_version = getattr(ssl.TLSVersion, version)
    plain = socket.create_connection(("127.0.0.1", int(port)), timeout=30)
    tls = context.wrap_socket(plain, server_hostname="localhost")
    block = binascii.unhexlify(frames)
    for _ in range(int(times)):
        tls.sendall(block)
    answer = b""
    while True:
        piece = tls.recv(3)
        if not piece:
            break
        answer += piece
    print(tls.version(), binascii.hexlify(answer).decode(), tls.session is not None and tls.session.has_ticket)
    """

  private func run(
    _ simulator: GatewaySimulator, port: Int, version: String, frames: [UInt8], times: Int = 1
  ) async throws -> String {
    let certificates = try #require(simulator.certificates)
    let app = try #require(certificates.apps["app"])
    let key = try #require(app.key)
    let ending = try await ChildProcess.run(
      [
        "-c", Self.script, "\(port)", certificates.authority, app.certificate, key, version,
        Digest.hexadecimal(frames), "\(times)",
      ], program: "python3", redirection: "2>&1")
    return ending.output.trimmingCharacters(in: .whitespacesAndNewlines)
  }

  /// One frame of each command for the token `00 01 … 1f` and the payload `{"aps":{}}`, copied from
  /// the protocol's layouts.
  private static func golden(_ command: FrameVersion) -> [UInt8] {
    let token = Array(0...31 as ClosedRange<UInt8>)
    let payload = Array(#"{"aps":{}}"#.utf8)
    return switch command {
    case .simple: [0, 0, 32] + token + [0, 10] + payload
    case .enhanced: [1, 0, 0, 0, 9, 0x53, 0x72, 0x4E, 0] + [0, 32] + token + [0, 10] + payload
    case .framed:
      [2, 0, 0, 0, 66] + [1, 0, 32] + token + [2, 0, 10] + payload + [3, 0, 4, 0, 0, 0, 9] + [
        4, 0, 4, 0x53, 0x72, 0x4E, 0,
      ] + [5, 0, 1, 10]
    }
  }

  @Test(
    "golden frames are accepted over TLS 1.2 and 1.3, and no session ticket is sent", arguments: ["TLSv1_2", "TLSv1_3"])
  func golden(version: String) async throws {
    try await withSimulator { simulator, memory in
      let frames =
        Self.golden(.simple) + Self.golden(.enhanced) + Self.golden(.framed) + [1, 0, 0, 1, 0] + [0, 0, 0, 0] + [0, 0]
        + [0, 0]
      let answer = try await run(simulator, port: simulator.gatewayPort, version: version, frames: frames)
      #expect(answer == "\(version.replacingOccurrences(of: "_", with: ".")) 080200000100 False")
      #expect(memory.frames.filter { $0.refusal == nil }.map(\.command) == [.simple, .enhanced, .framed])
      #expect(memory.frames.map(\.identifier) == [nil, 9, 9, 256])
      #expect(memory.frames.prefix(3).map(\.expiration) == [nil, 0x5372_4E00, 0x5372_4E00])
      #expect(
        Set(memory.frames.prefix(3).map(\.token?.description)) == [
          "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
        ])
    }
  }

  @Test(
    "a blocking client that writes megabytes before it reads still gets the error response, in each version of TLS",
    arguments: ["TLSv1_2", "TLSv1_3"])
  func writesFirst(version: String) async throws {
    var faults = Faults()
    faults.refuse = [Faults.Refuse(Faults.Selection(every: 100))]
    try await withSimulator(faults) { simulator, memory in
      // About 4 MB, of which the gateway needs the first 8 kB. A gateway that closed with the rest
      // unread would send a RST.
      let answer = try await run(
        simulator, port: simulator.gatewayPort, version: version, frames: FaultTests.frames(1...500), times: 100)
      #expect(answer == "\(version.replacingOccurrences(of: "_", with: ".")) 080800000064 False")
      #expect(await simulator.settledTruth().accepted == 99)
    }
  }

  @Test("it reads the feedback service too")
  func feedback() async throws {
    var faults = Faults()
    faults.feedback = [FeedbackTuple(timestamp: 0x5372_4E00, token: .numbered(1))]
    try await withSimulator(faults) { simulator, memory in
      let answer = try await run(simulator, port: simulator.feedbackPort, version: "TLSv1_3", frames: [])
      #expect(answer == "TLSv1.3 53724e000020\(TokenBytes.numbered(1)) False")
    }
  }
}
