internal import PushWire
internal import Testing

/// Headers and payload are checked together. Each rule is reported once.
struct ProviderFindingsTests {
  private func findings(
    _ payload: String, _ pushType: PushType = .alert, priority: UInt8? = nil, topic: String? = "com.example.news"
  ) -> [PayloadFinding] {
    var headers = ProviderHeaders(topic: topic, pushType: pushType)
    headers.priority = priority
    return headers.findings(
      payload: Array(payload.utf8),
      credential: pushType == .mdm ? .certificate(userIdentifier: nil, topics: []) : .token)
  }

  private func errors(_ findings: [PayloadFinding]) -> [String] {
    findings.filter { $0.severity == .error }.map(\.sentence)
  }

  @Test("a good notification of any type has no finding")
  func good() {
    #expect(findings(#"{"aps":{"alert":"a"}}"#, priority: 1).isEmpty)
    #expect(findings(#"{"aps":{"content-available":1}}"#, .background).isEmpty)
    #expect(findings(#"{"aps":{"content-available":1}}"#, .background, priority: 5).isEmpty)
    #expect(findings(#"{"mdm":"magic"}"#, .mdm).isEmpty)
    // A payload for the app itself needs no aps.
    #expect(findings(#"{"call":1}"#, .voip).isEmpty)
  }

  @Test("an error is reported once, although headers and payload both show it")
  func once() throws {
    #expect(errors(findings(#"{"call":1}"#)) == ["The payload does not contain aps."])
    #expect(errors(findings("")) == ["The payload is empty."])
    #expect(
      errors(findings(#"{"aps":{"content-available":1}}"#, .background, priority: 10)) == [
        "A background notification must have priority 5, not 10."
      ])
    let large = #"{"aps":{"alert":"\#(String(repeating: "x", count: 4100))"}}"#
    let problems = errors(findings(large))
    try #require(problems.count == 1)
    #expect(problems[0].contains("more than a notification of type alert may have (4096)"))
    #expect(findings(large, .voip).isEmpty)
    #expect(errors(findings(#"{"aps":{"badge":"1"}}"#, topic: nil)).count == 2)
  }

  @Test("a payload that only wakes the app should have type background, and must have it at priority 10")
  func waking() {
    let silent = #"{"aps":{"content-available":1}}"#
    #expect(findings(silent).map(\.severity) == [.warning])
    #expect(findings(silent).first?.sentence.contains("push type should be background") == true)
    #expect(errors(findings(silent, priority: 10)).count == 1)
  }
}
