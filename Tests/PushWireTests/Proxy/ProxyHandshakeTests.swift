internal import Support
internal import Testing

@testable internal import PushWire

/// Handshakes with proxies as values: what is sent, what an answer means, and that no peer matters
/// more than its bytes.
@Suite("Handshakes with proxies")
struct ProxyHandshakeTests {
  private typealias Ending = ProxyHandshake.Ending

  private static let credentials = ProxyCredentials(username: Array("user".utf8), password: Array("pa:ss".utf8))
  private static let name = ProxyRequest.Host.name("gateway.example.com")
  private static let hosts: [ProxyRequest.Host] = [
    name, .name(String(repeating: "x", count: 255)), .ipv4([127, 0, 0, 1], "127.0.0.1"),
    .ipv6([UInt8](repeating: 0, count: 15) + [1], "::1"),
  ]
  private static let accepted = Array("HTTP/1.1 200 Connection established\r\n\r\n".utf8)

  private static func request(_ host: ProxyRequest.Host = name, login: Bool = false) -> ProxyRequest {
    ProxyRequest(host: host, port: 2195, credentials: login ? credentials : nil)
  }

  /// Feeds bytes as they come, until there is an ending.
  private static func run(
    _ scheme: ProxyScheme, _ request: ProxyRequest, _ pieces: [ArraySlice<UInt8>]
  ) -> (sent: [UInt8], ending: Ending?) {
    var handshake = ProxyHandshake(scheme, request)
    var sent = handshake.opening
    for piece in pieces {
      if let ending = handshake.receive(Array(piece), output: &sent) { return (sent, ending) }
    }
    return (sent, nil)
  }

  private static func refusal(_ scheme: ProxyScheme, _ request: ProxyRequest, _ answer: [UInt8]) -> String? {
    guard case .refused(let text) = run(scheme, request, [answer[...]]).ending else { return nil }
    return text
  }

  private static func http(_ answer: String, login: Bool = false) -> String? {
    refusal(.http, request(login: login), Array(answer.utf8))
  }

  // MARK: What is sent

  @Test("CONNECT names the host as it is, with its port, and shows credentials in Base64")
  func connect() {
    let plain = Self.run(.http, Self.request(), []).sent
    let head = "CONNECT gateway.example.com:2195 HTTP/1.1\r\nHost: gateway.example.com:2195\r\n"
    #expect(plain == Array("\(head)\r\n".utf8))
    let shown = Self.run(.https, Self.request(login: true), []).sent
    #expect(shown == Array("\(head)Proxy-Authorization: Basic dXNlcjpwYTpzcw==\r\n\r\n".utf8))
    let address = Self.run(.http, Self.request(Self.hosts[3]), []).sent
    #expect(address.starts(with: Array("CONNECT [::1]:2195 HTTP/1.1\r\n".utf8)))
  }

  @Test("SOCKS gets the name, or the bytes of an address, and username and password if it asks")
  func socks() {
    let port: [UInt8] = [0x08, 0x93]
    let reply: [UInt8] = [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    var expected: [UInt8] = [5, 1, 0]
    expected += [5, 1, 0, 3, 19]
    expected += Array("gateway.example.com".utf8)
    let plain = Self.run(.socks5, Self.request(), [[5, 0], reply[...]])
    #expect(plain.sent == expected + port)
    #expect(plain.ending == .open(rest: []))
    expected = [5, 2, 0, 2]
    expected += [1, 4]
    expected += Array("user".utf8)
    expected.append(5)
    expected += Array("pa:ss".utf8)
    expected += [5, 1, 0, 1, 127, 0, 0, 1]
    let shown = Self.run(.socks5, Self.request(Self.hosts[2], login: true), [[5, 2], [1, 0], reply[...]])
    #expect(shown.sent == expected + port)
    #expect(shown.ending == .open(rest: []))
    expected = [5, 1, 0, 4]
    expected += [UInt8](repeating: 0, count: 15)
    expected.append(1)
    let six = Self.run(.socks5, Self.request(Self.hosts[3]), [[5, 0]])
    #expect(Array(six.sent.suffix(22)) == expected + port)
    #expect(six.ending == nil)
  }

  @Test("credentials are not printed")
  func secret() {
    #expect(!"\(Self.request(login: true))".contains("112"))
    #expect("\(Self.credentials)" == "(secret)")
    #expect(Mirror(reflecting: Self.credentials).children.isEmpty)
  }

  // MARK: What an answer means

  /// A good answer, of any form that a proxy may choose, and what of the host follows it.
  private static func answer(
    _ scheme: ProxyScheme, login: Bool, _ generator: inout SeededGenerator
  ) -> (bytes: [UInt8], rest: [UInt8]) {
    let rest = generator.bytes(generator.chance(50) ? 0 : Int.random(in: 1...600, using: &generator))
    guard scheme == .socks5 else {
      let end = generator.chance(80) ? "\r\n" : "\n"
      let interim = generator.chance(20) ? "HTTP/1.1 100 Continue\(end)\(end)" : ""
      let status =
        ["200 Connection established", "200", "201 x", "299 \u{1b}[2J"].randomElement(using: &generator) ?? ""
      var head = "\(interim)HTTP/1.\(generator.chance(50) ? 0 : 1) \(status)\(end)"
      for _ in 0..<Int.random(in: 0...20, using: &generator) { head += "X-Field: \(generator.next())\(end)" }
      return (Array("\(head)\(end)".utf8) + rest, rest)
    }
    let isAsked = login && generator.chance(50)
    let address: [UInt8] =
      switch Int.random(in: 0..<3, using: &generator) {
      case 0: [1] + generator.bytes(4)
      case 1: [4] + generator.bytes(16)
      default: [3, 9] + generator.bytes(9)
      }
    var bytes: [UInt8] = isAsked ? [5, 2, 1, 0] : [5, 0]
    bytes += [5, 0, 0]
    bytes += address
    bytes += generator.bytes(2)
    return (bytes + rest, rest)
  }

  @Test("a good answer opens the way, however it is divided, and what follows it is the host's", arguments: 1...200)
  func divided(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    for scheme in ProxyScheme.allCases {
      for (host, login) in zip(Self.hosts, [true, false, true, false]) {
        let request = Self.request(host, login: login)
        let (bytes, rest) = Self.answer(scheme, login: login, &generator)
        let whole = Self.run(scheme, request, [bytes[...]])
        #expect(whole.ending == .open(rest: rest), "\(scheme)")
        for pieces in [generator.cut(bytes), bytes.map { [$0] }] {
          var handshake = ProxyHandshake(scheme, request)
          var sent = handshake.opening
          var opened: [UInt8]?
          for piece in pieces {
            if opened != nil {
              opened? += piece
            } else if let ending = handshake.receive(Array(piece), output: &sent) {
              guard case .open(let rest) = ending else {
                Issue.record("\(scheme): \(ending)")
                return
              }
              opened = rest
            }
          }
          #expect(opened == rest, "\(scheme)")
          #expect(sent == whole.sent, "\(scheme)")
        }
        // Each proper prefix waits for more.
        let head = bytes.dropLast(rest.count)
        let short = head.prefix(Int.random(in: 0..<head.count, using: &generator))
        #expect(Self.run(scheme, request, [short]).ending == nil, "\(scheme): \(short.count) of \(head.count)")
      }
    }
  }

  @Test("a refusal over HTTP has the proxy's answer, and what to do")
  func refusalsOverHTTP() {
    let needs = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"\r\n\r\n"
    #expect(
      Self.http(needs)
        == "answered 407 Proxy Authentication Required: it demands a username and a password; give them with the proxy")
    #expect(
      Self.http(needs, login: true)
        == "answered 407 Proxy Authentication Required: it does not accept this username with this password; check both"
    )
    #expect(
      Self.http("HTTP/1.0 401 Unauthorized\r\n\r\n", login: true)
        == "answered 401 Unauthorized: it does not accept this username with this password; check both")
    #expect(
      Self.http(needs.replacing("Basic realm=\"x\"", with: "Negotiate\r\nproxy-authenticate:NTLM"))
        == "answered 407 Proxy Authentication Required: it demands negotiate, ntlm, and only Basic is spoken here; "
        + "let it accept Basic for this client")
    #expect(
      Self.http("HTTP/1.0 403 Filtered\n\n")
        == "answered 403 Filtered: it does not let this client reach gateway.example.com:2195; ask for that at its "
        + "operator")
    #expect(Self.http("HTTP/1.1 405\r\n\r\n")?.hasPrefix("answered 405: it may be no proxy for CONNECT") == true)
    #expect(Self.http("HTTP/1.1 504 Gateway Timeout\r\n\r\n")?.contains("it did not reach gateway") == true)
    #expect(Self.http("HTTP/1.1 302 \u{1b}[2J\r\nLocation: x\r\n\r\n")?.hasPrefix("answered 302 \\u{1b}[2J: ") == true)
    let long = String(repeating: "y", count: 1_000)
    #expect((Self.http("HTTP/1.1 500 \(long)\r\n\r\n")?.utf8.count ?? 0) < 200)
    for garbage in [
      "SSH-2.0-x", "HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 OK\r\n\r\n", "HTTP/1.1 -20 x\r\n\r\n", "\u{5}\u{0}",
    ] {
      #expect(Self.http(garbage) == "has not answered in HTTP/1; check scheme and port of its URL", "\(garbage)")
    }
  }

  @Test("a refusal over SOCKS has the proxy's answer, and what to do")
  func refusalsOverSOCKS() {
    func refusal(_ answer: [UInt8], login: Bool = false) -> String? {
      Self.refusal(.socks5, Self.request(login: login), answer)
    }
    #expect(
      refusal([5, 0xFF])
        == "answered 255 (no acceptable method): it demands a username and a password; give them with the proxy")
    #expect(refusal([5, 0xFF], login: true)?.contains("let it accept one of them") == true)
    #expect(refusal([5, 2])?.hasPrefix("answered with the method 2, which was not offered") == true)
    #expect(
      refusal([5, 2, 1, 1], login: true)
        == "answered 1: it does not accept this username with this password; check both")
    for code in UInt8(1)...255 {
      // Some send no address with it.
      let text = refusal([5, 0, 5, code])
      #expect(text?.hasPrefix("answered \(code) (") == true, "\(code)")
    }
    #expect(refusal([5, 0, 5, 2])?.contains("(not allowed): it does not let this client reach gateway") == true)
    #expect(refusal([5, 0, 5, 0, 0, 9, 0])?.contains("unknown kind 9") == true)
    let other = "does not speak SOCKS 5; check scheme and port of its URL"
    #expect(refusal(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)) == other)
    #expect(refusal([4, 0]) == other)
    #expect(refusal([5, 2, 5, 0], login: true) == other)
  }

  // MARK: Anything else

  @Test("no bytes trap, and none are kept without end", arguments: 1...200)
  func garbage(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    for scheme in ProxyScheme.allCases {
      for login in [false, true] {
        // Most of a good answer, then anything.
        let good = Self.answer(scheme, login: login, &generator).bytes
        var bytes = Array(good.prefix(Int.random(in: 0...good.count, using: &generator)))
        bytes += generator.bytes(Int.random(in: 0...2_000, using: &generator))
        if !bytes.isEmpty, generator.chance(50) { bytes[Int.random(in: 0..<bytes.count, using: &generator)] ^= 0x20 }
        _ = Self.run(scheme, Self.request(login: login), generator.cut(bytes))
      }
    }
  }

  @Test("an answer without an end is refused at its limit")
  func bounds() {
    let limit = ProxyHandshake.answerByteCountLimit
    let line = Array("HTTP/1.1 200 OK\r\nX: ".utf8)
    let endless = line + [UInt8](repeating: UInt8(ascii: "a"), count: limit - line.count)
    #expect(Self.run(.http, Self.request(), [endless[...]]).ending == nil)
    #expect(Self.run(.http, Self.request(), [endless[...], [0x61]]).ending == Self.tooLong)
    // Interim answers count together.
    let interim = Array("HTTP/1.1 100 x\r\n\r\n".utf8)
    let many = [ArraySlice<UInt8>](repeating: interim[...], count: limit / interim.count + 1)
    #expect(Self.run(.http, Self.request(), many).ending == Self.tooLong)
    // A byte at a time takes no longer than all at once, give or take.
    #expect(Self.run(.http, Self.request(), (endless + [0x61]).map { [$0] }).ending == Self.tooLong)
  }

  private static let tooLong = Ending.refused("has answered with more than 16384 bytes; check that it is a proxy")
}
