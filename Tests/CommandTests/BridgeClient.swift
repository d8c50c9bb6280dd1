internal import Foundation
internal import Support
internal import Testing

/// Clients of the bridge from outside this project: Python's `ssl` module, and OpenSSL's command.
enum BridgeClient {
  /// Sends as Pushy does: everything behind a refused frame again, everything since the last answer
  /// when the connection breaks, and a frame that must be refused at the end.
  ///
  /// Arguments: port, authorities, certificate, key, number of notifications, a bad one every so
  /// many, the first number, seconds between starting again, and the TLS version. Prints one JSON
  /// object.
  private static let script = """
    import json, select, socket, ssl, struct, sys, time
    port, ca, cert, key, count, every, first = sys.argv[1:8]
    context = ssl.create_default_context(cafile=ca)
    if len(sys.argv) > 8:
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = getattr(ssl.TLSVersion, sys.argv[8])
    context.load_cert_chain(cert, key)
    payload = b'{"aps":{"alert":"Hello"}}'
    def item(kind, data):
        return struct.pack(">BH", kind, len(data)) + data
    def frame(number, token, data):
        body = item(3, struct.pack(">I", number)) + item(1, token) + item(2, data)
        body += item(4, struct.pack(">I", 2000000000)) + item(5, b"\\n")
        return struct.pack(">BI", 2, len(body)) + body
    def token(n):
        bad = int(every) and n % int(every) == int(every) // 2
        return bytes.fromhex(("bad" if bad else "00a") + "%061x" % n)
    queue = [token(int(first) + n) for n in range(int(count))][::-1]
    number, reported, connections, written, silent = 1, [], 0, 0, 0
    ports = [int(part) for part in port.split(",")]
    while True:
        ports = ports[1:] + ports[:1]
        try:
            plain = socket.create_connection(("127.0.0.1", ports[-1]), timeout=60)
            tls = context.wrap_socket(plain, server_hostname="localhost")
        except (OSError, ssl.SSLError) as problem:
            if isinstance(problem, ssl.SSLError) and "ALERT" in str(problem).upper():
                print(json.dumps({"refused": str(problem)}))
                sys.exit(1)
            time.sleep(0.05)
            continue
        connections += 1
        tls.setblocking(False)
        sent, out, answer, probed, ended = [], b"", b"", False, False
        deadline = time.time() + 120
        while not ended and time.time() < deadline:
            if not out:
                for _ in range(50):
                    if queue:
                        sent.append((number, queue.pop()))
                        out += frame(number, sent[-1][1], payload)
                        written += 1
                        number += 1
                if not out and not probed:
                    probed = True
                    sent.append((number, b""))
                    out += frame(number, b"", payload)
                    number += 1
            try:
                if out:
                    out = out[tls.send(out):]
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                pass
            except (OSError, ssl.SSLError) as problem:
                if "ALERT" in str(problem).upper():
                    print(json.dumps({"refused": str(problem)}))
                    sys.exit(1)
                ended = True
            try:
                piece = tls.recv(6 - len(answer))
                answer += piece
                ended = ended or not piece or len(answer) == 6
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                if not ended:
                    select.select([tls], [tls] if out else [], [], 0.05)
            except (OSError, ssl.SSLError) as problem:
                if "ALERT" in str(problem).upper():
                    print(json.dumps({"refused": str(problem)}))
                    sys.exit(1)
                ended = True
        tls.close()
        behind = sent
        if len(answer) == 6:
            command, status, named = struct.unpack(">BBI", answer)
            places = [n for n, entry in enumerate(sent) if entry[0] == named]
            if places:
                behind = sent[places[0] + 1:]
                if status != 10 and sent[places[0]][1]:
                    reported.append([sent[places[0]][1].hex(), status])
                if status != 10 and not sent[places[0]][1]:
                    break
        else:
            silent += 1
        queue += [entry[1] for entry in behind if entry[1]][::-1]
    print(json.dumps({"reported": reported, "connections": connections, "written": written, "silent": silent,
        "version": tls.version() or "", "tickets": bool(tls.session and tls.session.has_ticket)}))
    """

  /// Reads the feedback service to its end and prints the tokens with their times. With a limit it
  /// breaks off after so many bytes.
  private static let feedbackScript = """
    import json, socket, ssl, struct, sys
    port, ca, cert, key, limit = sys.argv[1:6]
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(cert, key)
    plain = socket.create_connection(("127.0.0.1", int(port)), timeout=60)
    if int(limit):
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    tls = context.wrap_socket(plain, server_hostname="localhost")
    data = b""
    while not int(limit) or len(data) < int(limit):
        piece = tls.recv(4096)
        if not piece:
            break
        data += piece
    tls.close()
    found = []
    while len(data) >= 6:
        at, size = struct.unpack(">IH", data[:6])
        found.append([data[6:6 + size].hex(), at])
        data = data[6 + size:]
    print(json.dumps({"devices": found}))
    """

  struct Report: Decodable {
    struct Refusal: Decodable, Hashable {
      let token: String
      let status: Int

      init(from decoder: any Decoder) throws {
        var list = try decoder.unkeyedContainer()
        token = try list.decode(String.self)
        status = try list.decode(Int.self)
      }
    }

    let reported: [Refusal]?
    let connections: Int?
    let written: Int?
    let refused: String?
  }

  struct Feedback: Decodable {
    let devices: [Report.Refusal]
  }

  static func token(_ number: Int, isBad: Bool) -> String {
    let digits = String(number, radix: 16)
    return (isBad ? "bad" : "00a") + String(repeating: "0", count: 61 - digits.count) + digits
  }

  /// Starts a client in `directory`.
  ///
  /// - Parameter other: where it connects as well, in turns.
  static func start(
    in place: Workplace, port: Int, authority: String, certificate: String, key: String, count: Int, badEvery: Int,
    first: Int = 0, version: String? = nil, other: Int? = nil
  ) throws -> ChildProcess {
    try place.write(script, to: "client.py")
    let ports = "\(port)\(other.map { ",\($0)" } ?? "")"
    return try ChildProcess(
      ["client.py", ports, authority, certificate, key, "\(count)", "\(badEvery)", "\(first)"]
        + (version.map { [$0] } ?? []), program: "python3", directory: place.url)
  }

  static func report(_ client: ChildProcess) async throws -> Report {
    let ending = await client.ending()
    return try JSONDecoder().decode(Report.self, from: Data(ending.output.utf8))
  }

  static func feedback(
    in place: Workplace, port: Int, authority: String, certificate: String, key: String, limit: Int = 0
  ) async throws -> Feedback {
    try place.write(feedbackScript, to: "feedback.py")
    let ending = try await ChildProcess.run(
      ["feedback.py", "\(port)", authority, certificate, key, "\(limit)"], program: "python3", directory: place.url)
    return try JSONDecoder().decode(Feedback.self, from: Data(ending.output.utf8))
  }
}
