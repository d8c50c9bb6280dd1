internal import Foundation
internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Testing

/// Outages, poison and garbage of the HTTP/2 service, and how its truth counts them.
struct BadDayTests {
  @Test("a poison token ends the connection without a GOAWAY, and later requests are counted")
  func poison() throws {
    let driver = try ServiceDriver(faults: {
      $0.poison = [ServiceFaults.Poison(Faults.Selection(tokens: [.numbered(3)]))]
    })
    driver.send(numbers: 1...5)
    #expect(driver.connection.end == .close)
    driver.send(numbers: 6...7)
    #expect(driver.goAways.isEmpty)
    let truth = driver.ended()
    #expect((truth.accepted, truth.dropped, truth.unprocessed) == (2, 5, 0))
  }

  @Test("a poison request can be accepted, and the connection can end with a reset")
  func takenPoison() throws {
    let driver = try ServiceDriver(faults: {
      $0.poison = [ServiceFaults.Poison(Faults.Selection(tokens: [.numbered(1)]), isTaken: true, isReset: true)]
    })
    driver.send(numbers: 1...1)
    #expect(driver.connection.end == .reset)
    let truth = driver.ended()
    #expect((truth.accepted, truth.unanswered, truth.dropped) == (1, 1, 0))
  }

  @Test("an outage refuses everything on every connection, timed from the app's first connection")
  func outage() throws {
    var rules = FaultRules()
    rules.common.http2.outage = ServiceFaults.Outage(from: .seconds(2), length: .seconds(3))
    let made = ServiceDriver.service(rules)
    let driver = try ServiceDriver(made)
    let before = driver.send()
    driver.pass(.seconds(2))
    let during = driver.send()
    let another = try ServiceDriver(made, now: driver.now)
    let there = another.send()
    driver.pass(.seconds(3))
    let after = driver.send()
    #expect([driver.answer(before), driver.answer(after)] == ["200", "200"])
    #expect([driver.reason(during), another.reason(there)] == ["ServiceUnavailable", "ServiceUnavailable"])
    #expect(driver.ended().refused == [ServiceRefusal(.serviceUnavailable): 2])
  }

  @Test("garbage is sent in place of SETTINGS or after some responses, then the connection ends", arguments: [0, 2])
  func garbage(after: Int) throws {
    var rules = FaultRules()
    rules.common.http2.garbage = Faults.Breakpoint(after: after)
    let (service, _) = ServiceDriver.service(rules)
    let connection = try service.connect(ServiceClient(topics: [ServiceDriver.topic]), now: .start + .seconds(1))
    func output() -> [UInt8] {
      var all: [UInt8] = []
      while true {
        let bytes = unsafe connection.output()
        if bytes.count == 0 { return all }
        unsafe all += Array(bytes)
      }
    }
    let first = output()
    #expect(String(decoding: first, as: UTF8.self).hasPrefix("HTTP/1.1 502") == (after == 0))
    #expect(connection.end == (after == 0 ? .close : nil))
    guard after > 0 else { return }
    let fields = [
      (":method", "POST"), (":scheme", "https"), (":authority", "localhost"),
      (":path", "/3/device/" + Digest.hexadecimal(Frames.token(1))),
    ]
    let requests = [1, 3, 5].flatMap { HTTP2Wire.request($0, fields, body: ServiceDriver.payload) }
    let bytes = HTTP2Wire.preface + HTTP2Wire.settings + requests
    unsafe bytes.withUnsafeBytes { unsafe connection.received($0, now: .start + .seconds(1)) }
    #expect(String(decoding: output(), as: UTF8.self).hasSuffix("Connection: close\r\n\r\n"))
    #expect(connection.end == .close)
    connection.ended()
    let truth = service.truth()[ServiceDriver.topic]
    #expect((truth?.accepted, truth?.dropped) == (2, 1))
  }

  @Test("requests after a GOAWAY count as not processed, also those that the HTTP/2 session drops")
  func unprocessed() throws {
    let driver = try ServiceDriver(faults: { $0.goAway = ServiceFaults.GoAway(Faults.Breakpoint(after: 2)) })
    driver.send(numbers: 1...4)
    driver.send(numbers: 5...9)
    for number in 10...12 as ClosedRange<UInt32> { driver.send(token: Frames.token(number)) }
    #expect(driver.goAways.map(\.lastStreamID) == [3])
    let truth = driver.ended()
    #expect((truth.accepted, truth.unprocessed, truth.dropped) == (2, 10, 0))
  }

  @Test("both services refuse a certificate for the other environment only; one for both or none is accepted")
  func environment() throws {
    for (isSandbox, environments, isRefused) in [
      (false, [.sandbox], true), (true, [.production], true), (false, [.production], false), (true, [.sandbox], false),
      (false, [], false),
      (false, [.sandbox, .production], false),
    ] as [(Bool, Set<PushEnvironment>, Bool)] {
      var rules = FaultRules()
      rules.isSandbox = isSandbox
      var client = ServiceClient(topics: [ServiceDriver.topic], userIdentifier: ServiceDriver.topic)
      client.environments = environments
      let driver = try ServiceDriver(ServiceDriver.service(rules), client: client)
      #expect(driver.answer(driver.send()) == (isRefused ? #"{"reason":"BadCertificateEnvironment"}"# : "200"))
      var connection = SimulatedGateway(rules: rules).connect(
        topic: "app", isForOtherEnvironment: rules.isForOtherEnvironment(environments))
      #expect(connection.opened(now: .start + .seconds(1)).contains(.halfClose) == isRefused)
    }
  }

  @Test("the record has the service's apns-id where the client sent none or an invalid one")
  func madeIdentifier() throws {
    let path = FileManager.default.temporaryDirectory.appendingPathComponent("record-\(UUID().uuidString).jsonl").path
    defer { try? FileManager.default.removeItem(atPath: path) }
    let service = SimulatedService(recordFile: try RecordFile(path: path)) { _ in ServiceDriver.epoch * 1000 }
    let driver = try ServiceDriver((service, RecordedRequests()))
    driver.send()
    driver.send([("apns-id", "123e4567-e89b-42d3-a456-426614174000")])
    driver.send([("apns-id", "none")])
    driver.send([("apns-priority", "7")])
    _ = driver.ended()
    let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
    let identifiers = try lines.map { line in
      try (JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])?["id"] as? String
    }
    #expect(identifiers.count == 4)
    #expect(Set(identifiers).count == 4)
    #expect(identifiers[1] == "123e4567-e89b-42d3-a456-426614174000")
    #expect(identifiers.allSatisfy { $0.flatMap { UUID(uuidString: $0) } != nil }, "\(identifiers)")
  }
}
