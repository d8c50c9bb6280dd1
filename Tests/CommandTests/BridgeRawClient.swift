internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

/// Connections to the bridge that write given bytes and report what they read.
struct BridgeRawClient {
  /// Arguments: port, authorities, certificate, key, how many connections, and the bytes of each in
  /// hexadecimal digits. Prints "open" when every connection has been tried, and at the end of all
  /// of them one JSON list.
  private static let script = """
    import json, socket, ssl, sys
    port, ca, cert, key, count, text = sys.argv[1:7]
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(cert, key)
    found, open_ones = [], []
    for _ in range(int(count)):
        entry = {"handshake": False, "answer": "", "end": "refused", "issuer": ""}
        found.append(entry)
        try:
            plain = socket.create_connection(("127.0.0.1", int(port)), timeout=120)
            tls = context.wrap_socket(plain, server_hostname="localhost")
            entry["handshake"] = True
            entry["serial"] = tls.getpeercert()["serialNumber"]
            tls.sendall(bytes.fromhex(text))
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
  }

  let process: ChildProcess

  init(
    _ bridge: BridgeSite, port: Int, bytes: [UInt8], count: Int = 1, topic: String = HTTP2Site.topic
  ) throws {
    let files = try #require(bridge.clients.apps[topic])
    try bridge.site.place.write(Self.script, to: "raw.py")
    let text = bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    process = try ChildProcess(
      [
        "raw.py", "\(port)", bridge.site.certificates.files.authority, files.certificate, try #require(files.key),
        "\(count)", text,
      ], program: "python3", directory: bridge.site.place.url)
  }

  /// All connections have been tried.
  func isOpen() async { #expect(await process.line(0) == "open", "\(process.errors)") }

  func connections() async throws -> [Connection] {
    let ending = await process.ending()
    let line = try #require(ending.output.split(separator: "\n").last, "\(ending)")
    return try JSONDecoder().decode([Connection].self, from: Data(line.utf8))
  }

  /// A frame with a token that counts on from `number`.
  static func frame(_ command: UInt8, _ number: UInt8, isBad: Bool = false) -> [UInt8] {
    let token: [UInt8] = (isBad ? [0xBA, 0xD0] : [0x00, 0xA0]) + [UInt8](repeating: 0, count: 29) + [number]
    let payload = Array(#"{"aps":{"alert":"Hello"}}"#.utf8)
    let head: [UInt8] = command == 0 ? [0] : [1, 0, 0, 0, number, 0x77, 0, 0, 0]
    return head + [0, 32] + token + [0, UInt8(payload.count)] + payload
  }
}
