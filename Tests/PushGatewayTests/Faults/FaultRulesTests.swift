internal import Foundation
internal import PushGateway
internal import PushWire
internal import Testing

/// Reads rules files as trees.
struct FaultRulesTests {
  @Test("every key of a rules file is understood")
  func everything() throws {
    let rules = try FaultRules([
      "handshake-delay": "50ms",
      "latency": "40ms",
      "environment": "sandbox",
      "refuse": [
        ["tokens": [.text(TokenBytes.numbered(1).description)], "status": 3, "connections": 2],
        ["prefixes": ["00", "ABC"], "every": 10],
      ],
      "poison": ["every": 7],
      "answer-delay": "2s",
      "answer-identifier": "zero",
      "probe-identifier": "zero",
      "shutdown": ["after": 100],
      "close": ["after": 0, "connections": 1],
      "reset": ["after": 5],
      "stop-reading": ["after": 6, "for": "1m"],
      "refuse-certificate": true,
      "feedback": [["token": .text(TokenBytes.numbered(9).description), "timestamp": 1_400_000_000]],
      "payload-limits": ["simple": 1024, "framed": 4096],
      "token-length": "any",
      "apps": [
        "com.example.news": ["answer-delay": "0ms", "refuse-certificate": false, "token-length": 8],
        "com.example.empty": "",
      ],
    ])
    #expect(rules.handshakeDelay == .milliseconds(50))
    #expect(rules.latency == .milliseconds(40))
    #expect(rules.isSandbox)
    let common = rules.common
    #expect(
      common.refuse == [
        Faults.Refuse(Faults.Selection(tokens: [.numbered(1)], connections: 2), status: .missingTopic),
        Faults.Refuse(Faults.Selection(prefixes: ["00", "abc"], every: 10), status: .invalidToken),
      ])
    #expect(common.poison == [Faults.Selection(every: 7)])
    #expect(common.answerDelay == .seconds(2))
    #expect(!common.namesRefusedFrame)
    #expect(!common.namesProbe)
    #expect(common.shutDown == Faults.Breakpoint(after: 100))
    #expect(common.close == Faults.Breakpoint(after: 0, connections: 1))
    #expect(common.reset == Faults.Breakpoint(after: 5))
    #expect(common.stopReading == Faults.Pause(Faults.Breakpoint(after: 6), duration: .seconds(60)))
    #expect(common.refuseCertificate == Faults.CertificateRefusal())
    #expect(common.feedback == [FeedbackTuple(timestamp: 1_400_000_000, token: .numbered(9))])
    #expect(
      (common.limits.simplePayload, common.limits.enhancedPayload, common.limits.framedPayload) == (1024, 256, 4096))
    #expect(common.limits.tokenByteCount == nil)

    var news = common
    news.answerDelay = .zero
    news.refuseCertificate = nil
    news.limits.tokenByteCount = 8
    #expect(rules.faults(forTopic: "com.example.news") == news)
    #expect(rules.faults(forTopic: "com.example.empty") == common)
    #expect(rules.faults(forTopic: "another") == common)
  }

  @Test("an empty file is a gateway without faults")
  func empty() throws {
    #expect(try FaultRules("") == FaultRules())
    #expect(try FaultRules([:]) == FaultRules())
  }

  static let mistakes: [(RuleTree, String)] = [
    (["latency": "2m"], "The fault rule latency: is more than a minute."),
    (
      ["apps": ["a": ["latency": "1ms"]]],
      "The fault rule apps.a.latency: is allowed at the top level only: before the handshake the app is not known."
    ),
    (["environment": "test"], "The fault rule environment: \"test\" is not one of production, sandbox."),
    (["refuze": []], "The fault rules: unknown key \"refuze\"."),
    (
      ["refuse": [["tokens": [], "status": 8]]],
      "The fault rule refuse[0]: selects nothing: give tokens, prefixes or every."
    ),
    (["refuse": [["every": 5], ["every": 5, "statuss": 8]]], "The fault rule refuse[1]: unknown key \"statuss\"."),
    (["refuse": [["every": 0]]], "The fault rule refuse[0].every: 0 is less than 1."),
    (["refuse": [["every": 5, "status": 256]]], "The fault rule refuse[0].status: 256 is more than 255."),
    (
      ["refuse": [["prefixes": ["xy"]]]],
      "The fault rule refuse[0].prefixes[0]: does not consist of hexadecimal digits."
    ),
    (["poison": [["every": 5, "status": 8]]], "The fault rule poison[0]: unknown key \"status\"."),
    (["poison": "all"], "The fault rule poison: must be a list."),
    (
      ["answer-delay": "200"],
      "The fault rule answer-delay: \"200\" is not a duration such as 200ms, 5s or 2m (up to 24h)."
    ),
    (
      ["answer-delay": "99999999999999999999h"],
      "The fault rule answer-delay: \"99999999999999999999h\" is not a duration"
    ),
    (["answer-identifier": "none"], "The fault rule answer-identifier: \"none\" is not one of real, zero."),
    (
      ["shutdown": ["connections": 1]], "The fault rule shutdown: needs the key \"after\", a number of accepted frames."
    ),
    (["shutdown": 5], "The fault rule shutdown: must hold keys and values."),
    (["stop-reading": ["after": 5]], "The fault rule stop-reading: needs the key \"for\", a duration such as 2s."),
    (["reset": ["after": "many"]], "The fault rule reset.after: \"many\" is not a whole number."),
    (
      ["feedback": [["token": "abc", "timestamp": 1]]],
      "The fault rule feedback[0].token: is not a device token in hexadecimal digits"
    ),
    (["apps": ["a.b": ["closee": 1]]], "The fault rule apps.a.b: unknown key \"closee\"."),
    (
      ["apps": ["a.b": ["handshake-delay": "1s"]]],
      "The fault rule apps.a.b.handshake-delay: is allowed at the top level only"
    ),
    (["token-length": 101], "The fault rule token-length: 101 is more than 100."),
    (["close"], "The fault rules: must hold keys and values."),
  ]

  @Test("a mistake is an error that names the key", arguments: mistakes)
  func mistake(tree: RuleTree, sentence: String) throws {
    let error = #expect(throws: FaultRulesError.self) { try FaultRules(tree) }
    #expect(error?.description.hasPrefix(sentence) == true, "\(error?.description ?? "")")
  }

  @Test("a tree can be decoded from JSON, including numbers and booleans")
  func decodable() throws {
    let json = #"{"close":{"after":3},"refuse-certificate":true,"poison":[{"prefixes":["00"]}],"apps":{"a":null}}"#
    let tree = try JSONDecoder().decode(RuleTree.self, from: Data(json.utf8))
    #expect(
      tree == ["close": ["after": 3], "refuse-certificate": true, "poison": [["prefixes": ["00"]]], "apps": ["a": ""]])
  }
}
