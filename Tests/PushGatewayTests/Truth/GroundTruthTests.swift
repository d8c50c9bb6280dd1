internal import Foundation
internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Testing

struct GroundTruthTests {
  /// Runs `body` with the path of a file that is removed at the end.
  static func withRecord(_ body: (String) throws -> Void) throws {
    let path = FileManager.default.temporaryDirectory.appendingPathComponent("record-\(UUID().uuidString).jsonl").path
    defer { try? FileManager.default.removeItem(atPath: path) }
    try body(path)
  }

  @Test("the record has one line for each accepted or refused frame, none for probes, and is complete at the end")
  func record() throws {
    try Self.withRecord { path in
      var rules = FaultRules()
      rules.common.refuse = [Faults.Refuse(Faults.Selection(tokens: [.numbered(3)]))]
      rules.common.poison = [Faults.Selection(tokens: [.numbered(4)])]
      let gateway = SimulatedGateway(rules: rules, recordFile: try RecordFile(path: path))
      var first = Driver(gateway, topic: "com.example.\"news\"")
      first.receive(
        Frames.framed(1, Frames.token(1)) + Frames.simple(Frames.token(2), Array("{}".utf8))
          + Frames.enhanced(3, Frames.token(3)))
      var second = Driver(gateway, topic: "b")
      second.receive(Frames.framed(nil, Frames.token(4)))
      var third = Driver(gateway, topic: "b")
      third.receive(Frames.probe(.framed, 1))
      var fourth = Driver(gateway, topic: "b")
      fourth.receive(Frames.framed(5, nil, nil, more: [9]))
      _ = (first.ended(), second.ended(), third.ended(), fourth.ended())
      #expect(gateway.finish().recordProblem == nil)

      let hello = Digest.hexadecimal(Digest.sha256(Frames.payload))
      let braces = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
      let news = #"{"app":"com.example.\"news\"","connection":1,"command":"#
      #expect(
        try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").map(String.init) == [
          news + #"2,"identifier":1,"token":"\#(TokenBytes.numbered(1))","payload":"\#(hello)"}"#,
          news + #"0,"identifier":null,"token":"\#(TokenBytes.numbered(2))","payload":"\#(braces)"}"#,
          news + #"1,"identifier":3,"token":"\#(TokenBytes.numbered(3))","payload":"\#(hello)","refused":8}"#,
          #"{"app":"b","connection":2,"command":2,"identifier":null,"token":"\#(TokenBytes.numbered(4))","#
            + #""payload":"\#(hello)","refused":0}"#,
          #"{"app":"b","connection":4,"command":2,"identifier":5,"token":null,"payload":null,"refused":128}"#,
        ])
    }
  }

  @Test("a record of frames from many threads has every line, complete")
  func threads() throws {
    try Self.withRecord { path in
      let gateway = SimulatedGateway(recordFile: try RecordFile(path: path))
      DispatchQueue.concurrentPerform(iterations: 4) { worker in
        var driver = Driver(gateway, topic: "app\(worker)")
        for number in 1...5000 as ClosedRange<UInt32> { driver.receive(Frames.framed(number, Frames.token(number))) }
        _ = driver.ended()
      }
      #expect(gateway.finish().sum(\.accepted) == 20_000)
      struct Line: Decodable {
        let app: String
        let identifier: UInt32
        let token: String
      }
      var seen: [String: Set<UInt32>] = [:]
      for line in try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n") {
        let decoded = try JSONDecoder().decode(Line.self, from: Data(line.utf8))
        #expect(decoded.token == TokenBytes.numbered(decoded.identifier).description)
        seen[decoded.app, default: []].insert(decoded.identifier)
      }
      #expect(seen == Dictionary(uniqueKeysWithValues: (0..<4).map { ("app\($0)", Set(1...5000)) }))
    }
  }

  @Test("a record that cannot be created is an error with the file's name; an incomplete one is reported at the end")
  func recordProblems() throws {
    let error = #expect(throws: RecordFileError.self) { try RecordFile(path: "/nonexistent/record.jsonl") }
    #expect(error?.description == "The record /nonexistent/record.jsonl cannot be written: No such file or directory.")
    let gateway = SimulatedGateway(recordFile: try RecordFile(path: "/dev/full"))
    var driver = Driver(gateway)
    driver.receive(Frames.framed(1))
    _ = driver.ended()
    #expect(gateway.finish().recordProblem == "The record /dev/full is not complete: No space left on device.")
  }

  @Test("counts of open connections are in a snapshot, and count once when the connections end")
  func snapshots() {
    let gateway = SimulatedGateway()
    var driver = Driver(gateway)
    driver.receive(Frames.framed(1) + Frames.framed(2))
    #expect(gateway.truth().apps["app"]?.accepted == 2)
    driver.receive(Frames.framed(3))
    #expect(driver.ended().accepted == 3)
    #expect(driver.ended().accepted == 3)
    #expect(gateway.finish().sum(\.accepted) == 3)
    #expect(gateway.truth().sum(\.bytes) == Frames.framed(1).count * 3)
  }

  @Test("tokens accepted twice are found as duplicates")
  func duplicates() {
    var driver = Driver()
    driver.receive(
      Frames.framed(1, Frames.token(1)) + Frames.framed(2, Frames.token(2)) + Frames.framed(3, Frames.token(1)))
    #expect(driver.memory.accepted(topic: "app") == [.numbered(1): 2, .numbered(2): 1])
    #expect(driver.memory.accepted(topic: "other") == [:])
  }

  @Test("the counts are one line of JSON")
  func json() {
    var truth = GroundTruth()
    truth.apps["b"] = AppTruth()
    truth.apps["a\n"] = AppTruth()
    truth.apps["b"]?.accepted = 5
    truth.apps["b"]?.refused = [.unknown: 1, .invalidToken: 2]
    truth.recordProblem = "no \"space\""
    let zeros =
      #""poisoned":0,"probes":0,"discarded":0,"connections":0,"certificatesRefused":0,"bytes":0,"feedbackServed":0}"#
    #expect(
      truth.json == #"{"event":"stopped","apps":{"a\n":{"accepted":0,"refused":{"total":0,"byReason":{}},"# + zeros
        + #","b":{"accepted":5,"refused":{"total":3,"byReason":{"8 invalid token":2,"255 unknown":1}},"# + zeros
        + #"},"failedHandshakes":0,"recordProblem":"no \"space\""}"#)
  }
}

extension GroundTruth {
  /// Over all apps, binary protocol.
  fileprivate func sum(_ count: (AppTruth) -> Int) -> Int { apps.values.reduce(0) { $0 + count($1) } }
}
