internal import PushWire
internal import Support
internal import Testing

@Suite("Checking payloads")
struct PayloadCheckingTests {
  /// The findings as "severity path", which tables compare. Sentences are checked where they
  /// matter.
  private func check(_ text: String, for transport: PayloadTransport = .http2, priority: UInt8? = nil) -> [String] {
    Payload.check(Array(text.utf8), for: transport, priority: priority).map { "\($0.severity.rawValue) \($0.path)" }
  }

  @Test("the check knows every documented key")
  func everyKey() {
    let payload = [
      #"{"aps":{"alert":{"title":"T","subtitle":"S","body":"B","title-loc-key":"TK","#,
      #""title-loc-args":["1"],"subtitle-loc-key":"SK","subtitle-loc-args":["2"],"loc-key":"K","#,
      #""loc-args":["3","4"],"action-loc-key":"AK","action":"A","launch-image":"L","#,
      #""summary-arg":"SA","summary-arg-count":2},"badge":0,"sound":{"critical":1,"#,
      #""name":"default","volume":0.5},"content-available":1,"mutable-content":1,"category":"C","#,
      #""thread-id":"TH","target-content-id":"TC","interruption-level":"time-sensitive","#,
      #""relevance-score":0.25,"filter-criteria":"F","stale-date":1,"content-state":{},"#,
      #""timestamp":2,"event":"update","dismissal-date":3,"attributes-type":"AT","#,
      #""attributes":{},"content-changed":true,"url-args":["u"]}}"#,
    ].joined()
    #expect(check(payload, priority: 10).isEmpty)
    #expect(check(#"{"mdm":"PushMagic"}"#).isEmpty, "payloads of MDM have no aps")
  }

  private static let activity =
    #"{"aps":{"event":"update","timestamp":1,"relevance-score":100,"content-state":{"x":[1]},"#
    + #""alert":{"title":{"loc-key":"K","loc-args":["a"]}}}}"#

  @Test(
    "good payloads have no findings",
    arguments: [
      #"{"aps":{"alert":"Hello"}}"#, #"{"aps":{"alert":{"title":"a","body":"b"},"badge":0,"sound":"default"},"id":7}"#,
      #"{"mdm":"magic"}"#,
      #"{"aps":{"content-available":1}}"#,
      #"{"aps":{"alert":{"title-loc-key":null,"loc-key":"K","loc-args":[]},"badge":1.0}}"#,
      " {\"aps\":{\"badge\":1}}\n",
      activity,
    ]
  )
  func good(_ text: String) {
    #expect(check(text) == [])
  }

  @Test(
    "each finding has its severity and its place",
    arguments: [
      ("[]", ["error $"]), ("\"aps\"", ["error $"]), ("null", ["error $"]), ("", ["error $"]), ("{", ["error $"]),
      (#"{"aps":{}"#, ["error $"]),
      ("{}", ["error $"]), (#"{"alert":"x"}"#, ["warning $.alert", "error $"]), (#"{"aps":1}"#, ["error $.aps"]),
      (#"{"aps":null}"#, ["error $.aps"]),
      (#"{"aps":{}}"#, ["warning $.aps"]), (#"{"mdm":1}"#, ["error $.mdm"]),
      (#"{"aps":{"badge":1},"sound":"x"}"#, ["warning $.sound"]),
      (#"{"aps":{"alert":5}}"#, ["error $.aps.alert"]), (#"{"aps":{"alert":["x"]}}"#, ["error $.aps.alert"]),
      (#"{"aps":{"badge":"1"}}"#, ["error $.aps.badge"]),
      (#"{"aps":{"badge":1.5}}"#, ["error $.aps.badge"]), (#"{"aps":{"badge":-1}}"#, ["warning $.aps.badge"]),
      (#"{"aps":{"badge":true}}"#, ["error $.aps.badge"]),
      (#"{"aps":{"sound":1}}"#, ["error $.aps.sound"]),
      (#"{"aps":{"sound":{"critical":true,"volume":2}}}"#, ["error $.aps.sound.critical", "error $.aps.sound.volume"]),
      (#"{"aps":{"sound":{"file":"x"}}}"#, ["warning $.aps.sound.file"]),
      (#"{"aps":{"content-available":"1"}}"#, ["error $.aps.content-available"]),
      (#"{"aps":{"content-available":0}}"#, ["warning $.aps.content-available"]),
      (#"{"aps":{"mutable-content":2}}"#, ["error $.aps.mutable-content"]),
      (#"{"aps":{"thread-id":1}}"#, ["error $.aps.thread-id"]), (#"{"aps":{"category":{}}}"#, ["error $.aps.category"]),
      (#"{"aps":{"interruption-level":"urgent"}}"#, ["error $.aps.interruption-level"]),
      (#"{"aps":{"event":"begin"}}"#, ["error $.aps.event"]),
      (#"{"aps":{"relevance-score":2}}"#, ["warning $.aps.relevance-score"]),
      (#"{"aps":{"relevance-score":"1"}}"#, ["error $.aps.relevance-score"]),
      (#"{"aps":{"stale-date":"soon","timestamp":1.5}}"#, ["error $.aps.stale-date", "error $.aps.timestamp"]),
      (#"{"aps":{"content-state":[]}}"#, ["error $.aps.content-state"]),
      (#"{"aps":{"contentAvailable":1}}"#, ["warning $.aps.contentAvailable"]),
      (#"{"aps":{"alert":{"titel":"x"}}}"#, ["warning $.aps.alert.titel"]),
      (
        #"{"aps":{"alert":{"loc-key":"K","loc-args":["a",1,null]}}}"#,
        ["error $.aps.alert.loc-args[1]", "error $.aps.alert.loc-args[2]"]
      ),
      (#"{"aps":{"alert":{"loc-args":["a"]}}}"#, ["warning $.aps.alert.loc-args"]),
      (#"{"aps":{"alert":{"loc-key":"K","loc-args":"a"}}}"#, ["error $.aps.alert.loc-args"]),
      (
        #"{"aps":{"alert":{"title":1,"title-loc-key":1}}}"#,
        ["error $.aps.alert.title", "error $.aps.alert.title-loc-key"]
      ),
      (#"{"aps":{"badge":1,"badge":2}}"#, ["warning $.aps.badge"]),
      (#"{"aps":{"badge":1},"a b":{"x":1,"\u0078":2}}"#, [#"warning $["a b"].x"#]),
      (#"{"aps":{"badge":1},"x":[{"a":"\ud800"}]}"#, ["warning $.x[0].a"]),
      ("\u{FEFF}{\"aps\":{\"badge\":\"1\"}}", ["error $", "error $.aps.badge"]),
      ("{\"aps\":{\"badge\":1}}\0", ["error $"]), ("\0", ["error $", "error $"]),
      ("{\"aps\":{\"badge\":1}}\0x", ["error $"]),
    ] as [(String, [String])]
  )
  func findings(_ text: String, _ expected: [String]) {
    #expect(check(text) == expected)
  }

  @Test("two keys that look alike but have different bytes are not duplicates")
  func canonicalEquivalence() {
    #expect(check("{\"aps\":{\"badge\":1},\"é\":1,\"e\u{301}\":2}") == [])
  }

  @Test("every finding is one sentence and names its place")
  func sentences() {
    let findings = Payload.check(Array(#"{"aps":{"badge":"1","x":1}}"#.utf8), for: .http2)
    #expect(
      findings.map(\.description) == [
        "error at $.aps.badge: It must be a whole number, not a string.",
        "warning at $.aps.x: This key is not documented here, so it has no effect; custom keys belong beside aps.",
      ]
    )
  }

  @Test("invalid UTF-8 is reported with its place in the file, also behind a byte order mark")
  func invalidUTF8() {
    let body = Array("{\"aps\":{\"alert\":\"".utf8) + [0xFF] + Array("\"}}".utf8)
    #expect(
      Payload.check(body, for: .http2).map(\.sentence) == [
        "The payload is not JSON: at line 1, column 18 it is not valid UTF-8."
      ]
    )
    #expect(
      Payload.check([0xEF, 0xBB, 0xBF] + body, for: .http2).last?.sentence
        == "The payload is not JSON: at line 1, column 18 it is not valid UTF-8.")
  }

  @Test(
    "the command or the transport bounds the size, to the byte",
    arguments: [
      (.binary(.simple), 256), (.binary(.enhanced), 256), (.binary(.framed), 2048), (.http2, 4096), (.voip, 5120),
      (.broadcast, 5120),
    ] as [(PayloadTransport, Int)]
  )
  func sizes(_ transport: PayloadTransport, _ limit: Int) {
    func payload(_ count: Int) -> [UInt8] {
      let frame = #"{"aps":{"alert":""}}"#
      return Array(#"{"aps":{"alert":""#.utf8) + [UInt8](repeating: 0x61, count: count - frame.utf8.count)
        + Array("\"}}".utf8)
    }
    #expect(payload(limit).count == limit)
    #expect(Payload.check(payload(limit), for: transport).isEmpty)
    #expect(Payload.check(payload(limit + 1), for: transport).map(\.severity) == [.error])
    #expect(Payload.check(payload(limit + 1), for: transport, payloadLimit: limit + 1).isEmpty)
    #expect(Payload.check(payload(limit), for: transport, payloadLimit: limit - 1).map(\.severity) == [.error])
  }

  @Test("the size counts bytes of UTF-8, not characters")
  func sizeInBytes() {
    let text = #"{"aps":{"alert":""# + String(repeating: "é", count: 119) + "\"}}"
    #expect(text.count == 139)
    #expect(text.utf8.count == 258)
    #expect(check(text, for: .binary(.simple)) == ["error $"])
  }

  @Test("priority 10 is an error for a payload that only wakes the app")
  func priority() {
    let silent = #"{"aps":{"content-available":1},"id":1}"#
    let path = "$.aps.content-available"
    #expect(check(silent, for: .binary(.framed), priority: 10) == ["error \(path)"])
    #expect(check(silent, for: .http2, priority: 10) == ["error \(path)"])
    #expect(check(silent, for: .binary(.framed), priority: 5) == [])
    #expect(check(silent, for: .binary(.framed)) == [])
    #expect(check(silent, for: .binary(.simple)) == ["warning \(path)"])
    for visible in [#""alert":"x""#, #""badge":1"#, #""sound":"default""#] {
      #expect(check(#"{"aps":{"content-available":1,\#(visible)}}"#, for: .binary(.framed), priority: 10) == [])
    }
  }

  @Test("a payload with random changes has findings or none, and never crashes the check")
  func mutations() {
    let text = Array(
      (#"{"aps":{"alert":{"title":"Grüße","loc-key":"K","loc-args":["a"]},"#
        + #""sound":{"critical":1,"name":"n"},"badge":1},"k":["\ud83d\ude00"]}"#).utf8)
    var generator = SeededGenerator.fresh()
    for _ in 0..<3000 {
      var changed = text
      for _ in 0..<Int.random(in: 1...4, using: &generator) {
        changed[Int.random(in: 0..<text.count, using: &generator)] = .random(in: 0 ... .max, using: &generator)
      }
      if generator.chance(20) { changed.removeLast(Int.random(in: 0..<text.count, using: &generator)) }
      let findings = Payload.check(changed, for: .http2)
      let isObject = unsafe withExactBytes(changed) { unsafe JSONScanner.isObject($0) }
      if !isObject { #expect(findings.contains { $0.severity == .error }, "seed \(generator.seed)") }
    }
  }
}
