internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

/// Connections to the bridge that write given bytes and report what they read.
struct BridgeRawClient {
  /// Arguments: port, authorities, certificate (empty: none), key, how many connections, whether
  /// they close their side, the bytes of each in hexadecimal digits, and how often. Prints "open"
  /// when every connection has been tried, and at the end of all of them one JSON list.
  private static let script = """
    import json, socket, ssl, sys
    port, ca, cert, key, count, closes, text, times = sys.argv[1:9]
    context = ssl.create_default_context(cafile=ca)
    if cert:
        context.load_cert_chain(cert, key)
    found, open_ones = [], []
    for _ in range(int(count)):
        entry = {"handshake": False, "answer": "", "end": "refused", "issuer": ""}
        found.append(entry)
        try:
            plain = socket.create_connection(("127.0.0.1", int(port)), timeout=600)
            tls = context.wrap_socket(plain, server_hostname="localhost")
            entry["handshake"] = True
            entry["serial"] = tls.getpeercert()["serialNumber"]
            tls.sendall(bytes.fromhex(text) * int(times))
            if closes == "true":
                socket.socket.shutdown(tls, socket.SHUT_WR)
            open_ones.append((entry, tls))
        except (OSError, ssl.SSLError) as problem:
            entry["end"] = str(problem)
    print("open", flush=True)
    for entry, tls in open_ones:
        try:
            while True:
                piece = tls.recv(100)
                if not piece:
                    entry["end"] = "closed"
                    break
                entry["answer"] += piece.hex()
        except (OSError, ssl.SSLError) as problem:
            entry["end"] = str(problem)
        entry["tickets"] = bool(tls.session and tls.session.has_ticket)
        tls.close()
    print(json.dumps(found))
    """

  struct Connection: Decodable {
    let handshake: Bool
    /// In hexadecimal digits.
    let answer: String
    let end: String
    /// Of the certificate that the bridge has shown.
    let serial: String?
    /// Whether it has sent a session ticket.
    let tickets: Bool?

    var isRefusedByAlert: Bool { answer.isEmpty && end.lowercased().contains("alert") }
  }

  /// Of a client without a certificate.
  static let nobody = CredentialFiles(certificate: "")

  let process: ChildProcess

  /// - Parameters:
  ///   - identity: nil: that of the site's app.
  ///   - closes: whether each closes its side behind the bytes.
  ///   - times: how often each writes the bytes.
  init(
    _ bridge: BridgeSite, port: Int, bytes: [UInt8], count: Int = 1, as identity: CredentialFiles? = nil,
    closes: Bool = false, times: Int = 1
  ) throws {
    let files = try identity ?? #require(bridge.clients.apps[HTTP2Site.topic])
    try bridge.site.place.write(Self.script, to: "raw.py")
    process = try ChildProcess(
      [
        "raw.py", "\(port)", bridge.site.certificates.files.authority, files.certificate, files.key ?? "",
        "\(count)", "\(closes)", Self.hexadecimal(bytes), "\(times)",
      ], program: "python3", directory: bridge.site.place.url)
  }

  static func hexadecimal(_ bytes: [UInt8]) -> String {
    bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }

  /// All connections have been tried.
  func isOpen() async { #expect(await process.line(0) == "open", "\(process.errors)") }

  func connections() async throws -> [Connection] {
    let ending = await process.ending()
    let line = try #require(ending.output.split(separator: "\n").last, "\(ending)")
    return try JSONDecoder().decode([Connection].self, from: Data(line.utf8))
  }

  /// The one connection's end.
  func connection() async throws -> Connection { try #require(try await connections().first) }

  /// A frame with a token that counts on from `number`.
  static func frame(_ command: UInt8, _ number: UInt8, isBad: Bool = false) -> [UInt8] {
    let token: [UInt8] = (isBad ? [0xBA, 0xD0] : [0x00, 0xA0]) + [UInt8](repeating: 0, count: 29) + [number]
    let payload = Array(#"{"aps":{"alert":"Hello"}}"#.utf8)
    let head: [UInt8] = command == 0 ? [0] : [1, 0, 0, 0, number, 0x77, 0, 0, 0]
    return head + [0, 32] + token + [0, UInt8(payload.count)] + payload
  }

  /// A frame of command 1 without a token, which is answered when all before it is accepted.
  static func probe(_ number: UInt8) -> [UInt8] {
    let payload = Array(#"{"aps":{}}"#.utf8)
    return [1, 0, 0, 0, number, 0x77, 0, 0, 0, 0, 0, 0, UInt8(payload.count)] + payload
  }
}
