internal import Foundation
internal import PushStore
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

@testable internal import Carillon
@testable internal import PushServer

@Suite("Webhooks")
struct WebhookTests {
  @Test("a URL is https, with or without port, path and query")
  func urls() throws {
    func parts(_ url: String) throws -> [String] {
      let webhook = try Webhook(url: url, secretFile: "s")
      return [webhook.endpoint.host, "\(webhook.endpoint.port)", webhook.target, "\(webhook)"]
    }
    #expect(try parts("https://example.com") == ["example.com", "443", "/", "https://example.com:443"])
    #expect(try parts("HTTPS://example.com:8443/a/b?c=d%20e").prefix(3) == ["example.com", "8443", "/a/b?c=d%20e"])
    #expect(try parts("https://[2001:db8::1]:1/x") == ["2001:db8::1", "1", "/x", "https://[2001:db8::1]:1"])
    for (url, why) in [
      ("http://example.com", "https://host"), ("example.com", "https://host"), ("https://", "https://host"),
      ("https://example.com:0", "https://host"), ("https://example.com:65536", "https://host"),
      ("https://exa mple.com/", "https://host"), ("https://example.com/\r\nX: y", "https://host"),
      ("https://me:secret@example.com/", "username"), ("https://example.com/#a", "fragment"),
      ("https://example.com/" + String(repeating: "a", count: 2048), "2048 bytes"),
    ] {
      let error = #expect(throws: ValueError.self, "\(url)") { try Webhook(url: url, secretFile: "s") }
      #expect(error?.problem.contains(why) == true, "\(url): \(error?.problem ?? "")")
      #expect(error?.problem.contains("secret") == false)
    }
  }

  @Test("a delivery is signed with each secret over its instant and its body: RFC 2104, as OpenSSL has it")
  func signature() throws {
    // RFC 4231, test case 2, without the instant.
    #expect(
      Digest.hmacSHA256(Array("what do ya want for nothing?".utf8), key: Array("Jefe".utf8)).map {
        Digest.hexadecimal($0)
      } == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
    let body = Array("{}".utf8)
    let (first, second) = (Array("0123456789abcdef".utf8), Array("fedcba9876543210".utf8))
    func code(_ key: [UInt8]) throws -> String {
      Digest.hexadecimal(try #require(Digest.hmacSHA256(Array("17.{}".utf8), key: key)))
    }
    #expect(
      WebhookSignature.text(of: body, secrets: [first, second], seconds: 17)
        == "t=17,v1=\(try code(first)),v1=\(try code(second))")
    #expect(Digest.hmacSHA256([], key: [])?.count == 32)
  }

  @Test("a secret is the first line of a file of its owner's alone, and long enough")
  func secrets() throws {
    let place = try Workplace()
    try place.writeSecret("0123456789abcdef\r\nmore", to: "good")
    try place.writeSecret("short\n", to: "short")
    var webhook = try Webhook(url: "https://example.com", secretFile: place.path("good"))
    #expect(try webhook.secrets() == [Array("0123456789abcdef".utf8)])
    webhook.previousSecretFile = place.path("short")
    let short = #expect(throws: CredentialError.self) { try webhook.secrets() }
    #expect("\(try #require(short))".contains("16 to 1024 bytes"))
    try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: place.path("good"))
    let open = #expect(throws: CredentialError.self) { try webhook.secrets() }
    #expect("\(try #require(open))".contains("chmod 600"))
  }

  @Test("a receiver that fails gets few outcomes, later and later, and many again when it acknowledges")
  func pace() {
    var pace = WebhookPace(seed: 1)
    #expect(pace.limit == 1000)
    var pauses: [Duration] = []
    for _ in 0..<20 { pauses.append(pace.failed(asked: nil)) }
    #expect(pace.limit == 10)
    #expect((.milliseconds(500) ... .seconds(1)).contains(pauses[0]))
    #expect(pauses.allSatisfy { $0 <= .seconds(300) })
    #expect(pauses.suffix(8).allSatisfy { $0 >= .seconds(150) })
    #expect(pace.failed(asked: .seconds(9_000)) == .seconds(300))
    pace.succeeded()
    #expect(pace.limit == 100)
    pace.succeeded()
    pace.succeeded()
    #expect(pace.limit == 1000)
    #expect(pace.failed(asked: .seconds(7)) == .seconds(7))
  }

  @Test("an outcome that waits for five minutes is alarming, with the reason")
  func alarm() {
    var state = WebhookState(receiver: "https://example.com:443")
    (state.waitingCount, state.oldest) = (12_345, StoreInstant(milliseconds: 1_000_000))
    state.failure = "answered 503"
    func alarms(_ now: Int64) -> [Alarm] {
      AlarmRules.alarms(
        [(app: "news", status: AppStatusSnapshot())], journalFailure: nil, webhooks: ["news": state, "chat": state],
        disk: nil, now: now)
    }
    #expect(alarms(1_299).isEmpty)
    let alarm = alarms(1_300).first
    #expect(alarms(1_300).map(\.name) == [.webhookBehind])
    #expect(
      alarm?.text == "Its oldest outcome has waited 5 min for https://example.com:443: the receiver answered 503.")
    #expect(alarm?.action.hasPrefix("12,345 wait.") == true)
    #expect(state.lag(at: StoreInstant(milliseconds: 0)) == .zero)
  }
}

@Suite("Own networks")
struct OwnNetworkTests {
  @Test(
    "nothing of this machine, of private networks and of several hosts passes, whatever its form",
    arguments: [
      "127.0.0.1", "127.255.255.255", "0.0.0.0", "10.1.2.3", "100.64.0.1", "100.127.255.255", "169.254.169.254",
      "172.16.0.1", "172.31.255.255", "192.168.1.1", "192.0.0.8", "198.18.0.1", "198.19.255.255", "224.0.0.1",
      "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "fe80::1",
      "fe80::1%lo", "fd00::1", "fc00::1", "fec0::1", "ff02::1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::",
      "2002:c0a8:101::1", "2001:db8::1", "2001::1", "100::1",
    ])
  func own(address: String) throws {
    #expect(OwnNetwork.contains(try #require(HostAddresses.bytes(address))))
  }

  @Test(
    "what the Internet leads to passes",
    arguments: [
      "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0",
      "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700::1111",
      "::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1", "2a00:1450:4001::1", "2001:200::1", "101::1",
    ])
  func others(address: String) throws {
    #expect(!OwnNetwork.contains(try #require(HostAddresses.bytes(address))))
  }

  @Test("what is no address is nobody's")
  func nothing() {
    #expect(OwnNetwork.contains([]))
    #expect(HostAddresses.bytes("localhost") == nil)
    #expect(HostAddresses.bytes("127.1") == nil)
  }
}
