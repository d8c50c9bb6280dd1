internal import PushWire
internal import Testing

@Suite("Headers of the provider API, checked before sending")
struct ProviderHeadersTests {
  private let aps = Array(#"{"aps":{"alert":"Hello"}}"#.utf8)
  private let certificate = ProviderCredentialKind.certificate(
    userIdentifier: "com.example.news", topics: ["com.example.news", "com.example.news.voip"])

  private func headers(
    _ type: PushType = .alert, topic: String? = "com.example.news", _ change: (inout ProviderHeaders) -> Void = { _ in }
  ) -> ProviderHeaders {
    var headers = ProviderHeaders(topic: topic, pushType: type)
    change(&headers)
    return headers
  }

  @Test(
    "each push type has its name and its topic",
    arguments: [
      ("alert", ""), ("background", ""), ("complication", ".complication"), ("controls", ".push-type.controls"),
      ("fileprovider", ".pushkit.fileprovider"),
      ("liveactivity", ".push-type.liveactivity"), ("location", ".location-query"), ("mdm", ""),
      ("pushtotalk", ".voip-ptt"), ("voip", ".voip"),
      ("widgets", ".push-type.widgets"),
    ])
  func topics(name: String, suffix: String) throws {
    let type = try #require(PushType(rawValue: name))
    #expect(headers(type).effectiveTopic(for: .token) == "com.example.news" + suffix)
    #expect(
      headers(type, topic: "com.example.news" + suffix).effectiveTopic(for: .token) == "com.example.news" + suffix)
    #expect(headers(type, topic: nil).effectiveTopic(for: .token) == nil)
    #expect(headers(type).bundleIdentifier(for: .token) == "com.example.news")
    #expect(type.payloadLimit == (name == "voip" ? 5120 : 4096))
  }

  @Test("there are eleven push types") func count() { #expect(PushType.allCases.count == 11) }

  @Test("a good notification of every type breaks no rule")
  func good() {
    let activity = Array(#"{"aps":{"event":"update","content-state":{},"timestamp":1}}"#.utf8)
    for type in PushType.allCases where type != .mdm {
      let payload = type == .liveActivity ? activity : aps
      #expect(headers(type).check(payload: payload, credential: .token) == [], "\(type)")
      if type != .location { #expect(headers(type).check(payload: payload, credential: certificate) == [], "\(type)") }
    }
    let management = Array(#"{"mdm":"magic"}"#.utf8)
    let credential = ProviderCredentialKind.certificate(
      userIdentifier: "com.apple.mgmt.External.1", topics: ["com.apple.mgmt.External.1"])
    #expect(headers(.mdm, topic: nil).check(payload: management, credential: credential) == [])
    #expect(headers(.mdm, topic: nil).effectiveTopic(for: credential) == "com.apple.mgmt.External.1")
    #expect(headers(topic: nil).effectiveTopic(for: certificate) == "com.example.news")
    #expect(headers(.voip, topic: nil).effectiveTopic(for: certificate) == "com.example.news.voip")
  }

  @Test("each rule that is broken is reported in one sentence")
  func violations() {
    func says(
      _ headers: ProviderHeaders, _ payload: [UInt8]? = nil, _ credential: ProviderCredentialKind = .token,
      sourceLocation: SourceLocation = #_sourceLocation
    )
      -> String
    {
      headers.check(payload: payload ?? aps, credential: credential).map(\.description).joined(separator: " ")
    }
    let long = { (count: Int) in Array(#"{"aps":{"alert":"\#(String(repeating: "x", count: count - 20))"}}"#.utf8) }
    #expect(says(headers(), long(4096)) == "")
    #expect(
      says(headers(), long(4097))
        == "The payload has 4097 bytes, 1 more than a notification of type alert may have (4096).")
    #expect(says(headers(.voip), long(5120)) == "")
    #expect(
      says(headers(.voip), long(5121))
        == "The payload has 5121 bytes, 1 more than a notification of type voip may have (5120).")
    #expect(says(headers(), []) == "The payload is empty.")
    #expect(
      says(headers(topic: nil))
        == "There is no topic: set it to the app's bundle identifier, or use a certificate whose subject has a UID.")
    #expect(says(headers(topic: "com.example news")) == "The topic must be printable ASCII without spaces or slashes.")
    #expect(
      says(headers(topic: "com.example.other"), nil, certificate)
        == "The certificate does not cover the topic com.example.other, only com.example.news, com.example.news.voip.")
    #expect(says(headers { $0.priority = 7 }) == "The priority must be 10, 5 or 1, not 7.")
    #expect(says(headers { $0.priority = 1 }) == "")
    #expect(
      says(headers(.background) { $0.priority = 10 }) == "A background notification must have priority 5, not 10.")
    #expect(says(headers(.background) { $0.priority = 5 }) == "")
    #expect(headers(.background).effectivePriority == 5)
    #expect(says(headers { $0.collapseIdentifier = String(repeating: "c", count: 64) }) == "")
    #expect(
      says(headers { $0.collapseIdentifier = String(repeating: "c", count: 65) })
        == "The collapse identifier has 65 bytes; at most 64 are allowed.")
    #expect(
      says(headers { $0.collapseIdentifier = "a\nb" })
        == "The collapse identifier must be printable ASCII, with no space at either end.")
    #expect(
      says(headers(.location), nil, certificate)
        == "A location notification can be sent with a token key only, not with a certificate.")
    #expect(
      says(
        headers(.mdm, topic: "com.example.news"), Array(#"{"mdm":"m"}"#.utf8),
        .certificate(userIdentifier: "com.apple.mgmt.1", topics: []))
        == "The topic of device management is the UID of the certificate's subject, com.apple.mgmt.1, "
        + "not com.example.news.")
    #expect(
      says(headers(.mdm), Array(#"{"mdm":"m","aps":{}}"#.utf8))
        == "A device management notification can be sent with its certificate only, not with a token key. "
        + "The payload of device management is {\"mdm\":…} and must not contain aps."
    )
    #expect(says(headers(), Array(#"{"mdm":"m"}"#.utf8)) == "The payload contains mdm, so its push type must be mdm.")
    #expect(says(headers(), Array(#"{"own":1}"#.utf8)) == "The payload does not contain aps.")
    #expect(
      says(headers(.liveActivity)) == "The aps of a Live Activity must say which event it is: start, update or end.")
    let channel = headers(.liveActivity) {
      $0.channelIdentifier = "dHN0LXNyY2gtY2hubA=="
      $0.expiration = 0
    }
    let activity = Array(#"{"aps":{"event":"update"}}"#.utf8)
    #expect(says(channel, activity) == "")
    #expect(channel.payloadLimit == 5120)
    var wrong = channel
    wrong.pushType = .alert
    wrong.expiration = nil
    wrong.collapseIdentifier = "c"
    #expect(
      says(wrong, activity)
        == "A broadcast has no collapse identifier. A broadcast must have the push type liveactivity, not alert. "
        + "A broadcast must have an expiration: 0 if its channel stores nothing."
    )
  }
}
