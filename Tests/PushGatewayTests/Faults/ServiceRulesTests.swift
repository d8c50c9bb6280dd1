internal import PushGateway
internal import PushWire
internal import Testing

/// The section `http2:` of rules files.
struct ServiceRulesTests {
  @Test("every key of the section is understood, and an app's keys override the top level")
  func everything() throws {
    let rules = try FaultRules([
      "http2": [
        "strict": true, "clock-offset": "-90m", "expire-token-after": "30s", "idle-limit": "1h",
        "keys": [
          ["file": "a.p8", "key-id": "K", "team-id": "T", "topics": ["com.example.a"]],
          ["file": "b.pem", "key-id": "L", "team-id": "T"],
        ],
        "refuse": [
          ["prefixes": ["DEAD"]], ["every": 3, "reason": "Unregistered", "timestamp": 1_700_000_000_000, "times": 2],
          ["every": 5, "status": 500, "reason": "Odd", "connections": 1],
        ],
        "bursts": ["every": 100, "length": 7, "connections": 2],
        "no-answer": [["every": 9, "taken": false], ["every": 10]],
        "reset": ["every": 11, "code": 2, "taken": true],
        "delay": ["uniform": "5ms", "to": "50ms"],
        "stream-limit": 500, "first-stream-limit": 3, "error-stream-limit": 1,
        "limits": [["after": 10, "to": 2, "connections": 1], ["after": 20, "to": 400]],
        "goaway": ["after": 1000, "connections": 2, "reason": "Shutdown", "code": 1],
        "drain": ["after": 50],
        "cut": [["after": 7, "taken": false, "how": "close"], ["after": 8]],
        "poison": ["prefixes": ["de"], "taken": true, "how": "reset"],
        "outage": ["from": "5s", "for": "15s", "reason": "InternalServerError"],
        "garbage": ["after": 0, "connections": 3],
        "broadcast": false,
      ],
      "token-length": 8,
      "apps": [
        "com.example.a": ["http2": ["delay": ["exponential": "20ms"], "refuse": []]],
        "com.example.b": ["answer-delay": "1s"],
      ],
    ])
    let service = rules.service
    #expect(service.isStrict)
    #expect(service.clockOffset == .seconds(-5400))
    #expect(service.expireTokenAfter == .seconds(30))
    #expect(service.idleLimit == .seconds(3600))
    #expect(
      service.keys == [
        ServiceSettings.KeyFile(file: "a.p8", keyIdentifier: "K", teamIdentifier: "T", topics: ["com.example.a"]),
        ServiceSettings.KeyFile(file: "b.pem", keyIdentifier: "L", teamIdentifier: "T"),
      ])
    let common = rules.common.http2
    #expect(
      common.refuse == [
        ServiceFaults.Refuse(Faults.Selection(prefixes: ["dead"])),
        ServiceFaults.Refuse(
          Faults.Selection(every: 3), ServiceRefusal(.unregistered), timestamp: 1_700_000_000_000, times: 2),
        ServiceFaults.Refuse(Faults.Selection(every: 5, connections: 1), ServiceRefusal(status: 500, reason: "Odd")),
      ])
    #expect(common.poison == [ServiceFaults.Poison(Faults.Selection(prefixes: ["de"]), isTaken: true, isReset: true)])
    #expect(
      common.outage
        == ServiceFaults.Outage(from: .seconds(5), length: .seconds(15), ServiceRefusal(.internalServerError)))
    #expect(common.garbage == Faults.Breakpoint(after: 0, connections: 3))
    #expect(common.bursts == [ServiceFaults.Burst(every: 100, length: 7, connections: 2)])
    #expect(
      common.noAnswer == [
        ServiceFaults.Silence(Faults.Selection(every: 9), isTaken: false),
        ServiceFaults.Silence(Faults.Selection(every: 10), isTaken: true),
      ])
    #expect(common.reset == [ServiceFaults.Reset(Faults.Selection(every: 11), code: 2, isTaken: true)])
    #expect(common.delay == .uniform(.milliseconds(5), .milliseconds(50)))
    #expect((common.streamLimit, common.firstStreamLimit, common.errorStreamLimit) == (500, 3, 1))
    #expect(common.limits.map(\.limit) == [2, 400])
    #expect(common.limits.map(\.breakpoint.connections) == [1, nil])
    #expect(
      common.goAway == ServiceFaults.GoAway(Faults.Breakpoint(after: 1000, connections: 2), code: 1, reason: "Shutdown")
    )
    #expect(common.drain == ServiceFaults.Drain(Faults.Breakpoint(after: 50), answers: 100))
    #expect(
      common.cut == [
        ServiceFaults.Cut(Faults.Breakpoint(after: 7), isTaken: false, isReset: false),
        ServiceFaults.Cut(Faults.Breakpoint(after: 8)),
      ])
    #expect(!common.allowsBroadcast)

    var differing = rules.common
    differing.http2.delay = .exponential(mean: .milliseconds(20))
    differing.http2.refuse = []
    #expect(rules.faults(forTopic: "com.example.a") == differing)
    #expect(rules.faults(forTopic: "com.example.b").http2 == common)
    #expect(rules.faults(forTopic: "com.example.b").limits.tokenByteCount == 8)
  }

  static let mistakes: [(RuleTree, String)] = [
    (["http2": ["refuze": []]], "The fault rule http2: unknown key \"refuze\"."),
    (
      ["http2": ["refuse": [["every": 5, "reason": "Odd"]]]],
      "The fault rule http2.refuse[0]: \"Odd\" is not one of the service's reasons, so it needs a status."
    ),
    (
      ["http2": ["refuse": [["every": 5, "status": 200]]]],
      "The fault rule http2.refuse[0].status: 200 is less than 400."
    ),
    (["http2": ["refuse": [["reason": "Unregistered"]]]], "The fault rule http2.refuse[0]: selects nothing"),
    (
      ["http2": ["reset": ["every": 2, "taken": true]]],
      "The fault rule http2.reset: accepts a request, but code 7 (REFUSED_STREAM) says the opposite"
    ),
    (["http2": ["delay": ["uniform": "5ms"]]], "The fault rule http2.delay: must be one of"),
    (["http2": ["delay": ["uniform": "5ms", "to": "1ms"]]], "The fault rule http2.delay: must be one of"),
    (["http2": ["delay": ["fixed": "5"]]], "The fault rule http2.delay.fixed: \"5\" is not a duration"),
    (["http2": ["limits": ["after": 5]]], "The fault rule http2.limits: needs the key \"to\""),
    (["http2": ["goaway": ["reason": "x"]]], "The fault rule http2.goaway: needs the key \"after\""),
    (
      ["http2": ["cut": ["after": 1, "how": "softly"]]],
      "The fault rule http2.cut.how: \"softly\" is not one of close, reset."
    ),
    (["http2": ["bursts": ["every": 10, "length": 11]]], "The fault rule http2.bursts.length: 11 is more than 10."),
    (["http2": ["keys": [["file": "x", "key-id": "K"]]]], "The fault rule http2.keys[0]: needs the key \"team-id\"."),
    (
      ["http2": ["keys": [["file": "x", "key-id": "K", "team-id": "T", "topic": "x"]]]],
      "The fault rule http2.keys[0]: unknown key \"topic\"."
    ),
    (["http2": ["clock-offset": "--5m"]], "The fault rule http2.clock-offset: \"-5m\" is not a duration"),
    (["http2": "all"], "The fault rule http2: must hold keys and values."),
    (
      ["apps": ["a.b": ["http2": ["strict": true]]]],
      "The fault rule apps.a.b.http2.strict: is allowed at the top level only"
    ),
    (["apps": ["a.b": ["http2": ["delay": "1s"]]]], "The fault rule apps.a.b.http2.delay: must hold keys and values."),
  ]

  @Test("a mistake is an error that names the key", arguments: mistakes)
  func mistake(tree: RuleTree, sentence: String) throws {
    let error = #expect(throws: FaultRulesError.self) { try FaultRules(tree) }
    #expect(error?.description.hasPrefix(sentence) == true, "\(error?.description ?? "")")
  }
}
