internal import PushWire
internal import Support
internal import Testing

@Suite("Answers of the provider API")
struct ProviderAnswerTests {
  /// Status, reason, verdict: written by hand from HTTP2ProviderAPI.md, section 4, and not from the
  /// table.
  static let documented: [(UInt16, String, ProviderVerdict)] = [
    (200, "", .accepted),
    (400, "BadCollapseId", .rejected), (400, "BadExpirationDate", .rejected), (400, "BadMessageId", .rejected),
    (400, "BadPriority", .rejected),
    (400, "BadTopic", .rejected), (400, "DuplicateHeaders", .rejected), (400, "InvalidPushType", .rejected),
    (400, "MissingDeviceToken", .rejected),
    (400, "MissingTopic", .rejected), (400, "PayloadEmpty", .rejected),
    (400, "BadDeviceToken", .badToken), (400, "DeviceTokenNotForTopic", .badToken),
    (400, "TopicDisallowed", .pausesApp), (400, "IdleTimeout", .reconnects),
    (403, "BadCertificate", .pausesApp), (403, "BadCertificateEnvironment", .pausesApp), (403, "Forbidden", .pausesApp),
    (403, "InvalidProviderToken", .disputesToken), (403, "MissingProviderToken", .pausesApp),
    (403, "BadEnvironmentKeyIdInToken", .pausesApp), (403, "BadEnvironmentKeyInToken", .pausesApp),
    (403, "ExpiredProviderToken", .expiredToken), (403, "UnrelatedKeyIdInToken", .needsOwnConnection),
    (404, "BadPath", .rejected), (405, "MethodNotAllowed", .rejected),
    (410, "Unregistered", .gone), (410, "ExpiredToken", .gone),
    (413, "PayloadTooLarge", .rejected),
    (429, "TooManyRequests", .delaysToken), (429, "TooManyProviderTokenUpdates", .keepsToken),
    (500, "InternalServerError", .backsOff), (503, "ServiceUnavailable", .backsOff), (503, "Shutdown", .reconnects),
    // Section 6, broadcasts.
    (400, "FeatureNotEnabled", .pausesApp), (400, "MissingChannelId", .rejected), (400, "BadChannelId", .rejected),
    (400, "ChannelNotRegistered", .rejected),
    (410, "ChannelNotRegistered", .rejected), (400, "BadRequestParams", .rejected),
    (400, "BadRequestPayload", .rejected),
    (400, "MissingPushType", .rejected), (400, "CannotCreateChannelConfig", .rejected),
    (500, "CannotCreateChannelConfig", .rejected),
    (403, "TopicMismatch", .pausesApp),
  ]

  @Test("every documented status and reason has its verdict", arguments: documented)
  func row(status: UInt16, text: String, verdict: ProviderVerdict) {
    let reason = ProviderReason(rawValue: text)
    #expect((reason == nil) == text.isEmpty)
    #expect(ProviderAnswer.verdict(status: status, reason: reason) == verdict)
    let body =
      text.isEmpty ? ProviderErrorBody() : ProviderErrorBody(parsing: Array(#"{"reason":"\#(text)"}"#.utf8).span)
    #expect(ProviderAnswer.verdict(status: status, reason: body.reason) == verdict)
  }

  @Test("every reason is in the table, and every row of it is documented")
  func complete() {
    for reason in ProviderReason.allCases {
      #expect(ProviderAnswer.table.contains { $0.reason == reason }, "\(reason.rawValue)")
    }
    for row in ProviderAnswer.table {
      guard let reason = row.reason else { continue }
      #expect(
        Self.documented.contains {
          $0.1 == reason.rawValue && (row.status == nil || $0.0 == row.status) && $0.2 == row.verdict
        },
        "\(row.status.map(String.init) ?? "any") \(reason.rawValue)")
    }
    for verdict in ProviderVerdict.allCases where verdict != .unknown {
      #expect(ProviderAnswer.table.contains { $0.verdict == verdict }, "\(verdict)")
    }
  }

  @Test("what an app is refused for says what to do; other reasons do not")
  func advice() {
    for row in ProviderAnswer.table {
      guard let reason = row.reason else { continue }
      let isOfApp = row.verdict == .pausesApp || row.verdict == .disputesToken
      #expect((reason.credentialAdvice != nil) == isOfApp, "\(reason.rawValue)")
    }
    let refusal = Rejection.provider(ProviderRefusal(status: 403, reason: nil, otherReason: "NewReason"))
    #expect(
      refusal.sentenceForApp
        == "the gateway refuses this app: 403 NewReason; check its credential, topic and environment")
  }

  @Test(
    "an undocumented answer is judged by its status",
    arguments: [
      (200, .accepted), (201, .unknown), (204, .unknown), (0, .unknown), (302, .unknown), (400, .rejected),
      (401, .rejected), (403, .pausesApp),
      (404, .rejected),
      (410, .gone), (413, .rejected), (418, .rejected), (429, .delaysToken), (500, .backsOff), (502, .backsOff),
      (503, .backsOff), (599, .backsOff),
      (600, .unknown), (999, .unknown),
    ] as [(UInt16, ProviderVerdict)])
  func fallback(status: UInt16, verdict: ProviderVerdict) {
    #expect(ProviderAnswer.verdict(status: status, reason: nil) == verdict)
    // A reason that belongs to another status has no effect.
    if status != 400 { #expect(ProviderAnswer.verdict(status: status, reason: .badCollapseIdentifier) == verdict) }
    #expect(ProviderAnswer.verdict(status: 200, reason: .badDeviceToken) == .accepted)
  }

  @Test("a refusal takes four bytes in a journal and is read back from them")
  func codes() {
    let numbered = [
      "BadCertificate", "BadCertificateEnvironment", "BadChannelId", "BadCollapseId", "BadDeviceToken",
      "BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken", "BadExpirationDate", "BadMessageId", "BadPath",
      "BadPriority", "BadRequestParams", "BadRequestPayload", "BadTopic", "CannotCreateChannelConfig",
      "ChannelNotRegistered", "DeviceTokenNotForTopic", "DuplicateHeaders", "ExpiredProviderToken", "ExpiredToken",
      "FeatureNotEnabled", "Forbidden", "IdleTimeout", "InternalServerError", "InvalidProviderToken",
      "InvalidPushType", "MethodNotAllowed", "MissingChannelId", "MissingDeviceToken", "MissingProviderToken",
      "MissingPushType", "MissingTopic", "PayloadEmpty", "PayloadTooLarge", "ServiceUnavailable", "Shutdown",
      "TooManyProviderTokenUpdates", "TooManyRequests", "TopicDisallowed", "TopicMismatch", "Unregistered",
      "UnrelatedKeyIdInToken",
    ]
    for (index, name) in numbered.enumerated() {
      #expect(ProviderReason(rawValue: name)?.code == UInt8(index + 1), "the numbers in journals never change")
    }
    #expect(ProviderReason(code: 0) == nil)
    #expect(ProviderReason(code: UInt8(numbered.count + 1)) == nil)
    for reason in ProviderReason.allCases {
      #expect(reason.code != 0)
      #expect(ProviderReason(code: reason.code) == reason)
      let refusal = ProviderRefusal(status: 403, reason: reason)
      #expect(ProviderRefusal(code: refusal.code) == refusal)
      #expect(refusal.description == "403 \(reason.rawValue)")
    }
    let new = ProviderRefusal(status: 400, reason: nil, otherReason: "SomethingNew")
    #expect("\(new)" == "400 SomethingNew")
    #expect(ProviderRefusal(code: new.code, otherReason: new.otherReason) == new)
    let other = ProviderRefusal(status: 418, reason: nil)
    #expect(ProviderRefusal(code: other.code) == other)
    #expect(other.description == "418 without a known reason")
  }

  @Test(
    "an unknown reason is shown as it came, up to 64 characters and escaped for terminals",
    arguments: [
      ("SomethingNew", "SomethingNew"), ("Überlast, 過負荷", "Überlast, 過負荷"),
      ("Bad\u{1b}[2J\u{9b}31m\u{202e}x", #"Bad\u{1b}[2J\u{9b}31m\u{202e}x"#),
      (String(repeating: "x", count: 65), String(repeating: "x", count: 64)),
      (String(repeating: "x", count: 62) + "\u{1b}", String(repeating: "x", count: 62) + #"\u"#),
      (String(repeating: "\u{10400}", count: 64), String(repeating: "\u{10400}", count: 63)),
      ("e" + String(repeating: "\u{301}", count: 300), "e" + String(repeating: "\u{301}", count: 63)),
    ])
  func printable(reason: String, expected: String) {
    func shown(_ bytes: [UInt8]) -> String { ProviderRefusal.printable(bytes.span) }
    let text = shown(Array(reason.utf8))
    #expect(text.unicodeScalars.elementsEqual(expected.unicodeScalars), "\(text)")
    #expect(text.utf8.count <= ProviderRefusal.otherReasonByteCountLimit)
    #expect(shown(Array(text.utf8)) == text, "from a journal it comes back as it was")
    let whole = shown([0xFF, 0x41] + [UInt8](repeating: 0xC3, count: 300))
    #expect(whole.unicodeScalars.count == 64)
    #expect(whole.hasPrefix("\u{FFFD}A"))
  }

  @Test("error bodies are read whatever else is in them; other bodies give nothing")
  func bodies() {
    func read(_ text: String) -> ProviderErrorBody {
      unsafe withExactBytes(Array(text.utf8)) { unsafe ProviderErrorBody(parsing: $0) }
    }
    #expect(
      read(#"{"reason":"Unregistered","timestamp":1700000000123}"#)
        == ProviderErrorBody(reason: .unregistered, timestampMilliseconds: 1_700_000_000_123))
    #expect(
      read(#" { "timestamp" : 1.5e3 , "x":[{"reason":"BadTopic"}], "reason" : "BadPath" } "#)
        == ProviderErrorBody(reason: .badPath, timestampMilliseconds: 1))
    #expect(
      read(#"{"reason":"Unregistered","reason":"BadPath","timestamp":1,"timestamp":2}"#)
        == ProviderErrorBody(reason: .unregistered, timestampMilliseconds: 1))
    #expect(read(#"{"reason":"Unregistered","timestamp":-1}"#) == ProviderErrorBody(reason: .unregistered))
    #expect(
      read(#"{"reason":"Unregistered","timestamp":99999999999999999999999}"#)
        == ProviderErrorBody(reason: .unregistered))
    let new = read(#"{"reason":"SomethingNew"}"#)
    #expect(new.reason == nil)
    #expect(new.otherReason == 11..<23)
    let first = read(#"{"reason":"SomethingNew","reason":"BadPath"}"#)
    #expect(first.reason == nil)
    #expect(first.otherReason == 11..<23)
    #expect(read(#"{"reason":"","x":{"reason":"Inner"}}"#) == ProviderErrorBody())
    #expect(read(#"{"reason":7,"timestamp":"1"}"#) == ProviderErrorBody())
    for text in [
      "", "[]", "null", #""BadPath""#, #"{"reason":"BadPath""#, #"{"reason":"BadPath"} x"#, "<html>",
      String(repeating: "[", count: 4000),
    ] {
      #expect(read(text) == ProviderErrorBody(), "\(text)")
    }
    #expect(read(#"{"reason":"BadPath","x":"\#(String(repeating: "x", count: 5000))"}"#) == ProviderErrorBody())
  }

  @Test("random bytes instead of an error body never trap")
  func hostileBodies() {
    let seed = SeededGenerator.freshSeed()
    var random = SeededGenerator(seed: seed)
    let pieces = [
      "{", "}", "\"reason\"", ":", "\"Unregistered\"", "\"timestamp\"", "1", "e", ".", "-", "[", "]", ",", "null",
      "\\u00", "\"", "\u{7F}",
    ]
    for _ in 0..<20_000 {
      let text = (0..<Int.random(in: 0..<12, using: &random)).map { _ in pieces.randomElement(using: &random) ?? "" }
        .joined()
      let bytes = random.chance(50) ? Array(text.utf8) : random.bytes(Int.random(in: 0..<64, using: &random))
      let body = unsafe withExactBytes(bytes) { unsafe ProviderErrorBody(parsing: $0) }
      #expect(body.reason == nil || body.reason == .unregistered, "seed \(seed)")
    }
  }
}
