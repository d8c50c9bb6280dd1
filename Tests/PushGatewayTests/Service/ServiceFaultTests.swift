internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Testing

/// The fault rules of the HTTP/2 service: what clients see, and that the truth knows it.
struct ServiceFaultTests {
  @Test("reasons by token, prefix and every n-th, the first that matches; 410 comes with its time")
  func refuse() throws {
    let driver = try ServiceDriver { faults in
      faults.refuse = [
        ServiceFaults.Refuse(Faults.Selection(tokens: [.numbered(3)]), ServiceRefusal(.unregistered), timestamp: 1_700_000_000_123),
        ServiceFaults.Refuse(Faults.Selection(tokens: [.numbered(4)]), .expiredToken),
        ServiceFaults.Refuse(Faults.Selection(prefixes: ["dead"])),
        ServiceFaults.Refuse(Faults.Selection(every: 5), ServiceRefusal(status: 418, reason: "Teapot")),
      ]
    }
    let streams = driver.send(numbers: 1...10)
    #expect(driver.answer(streams[2]) == #"{"reason":"Unregistered","timestamp":1700000000123}"#)
    #expect(driver.answer(streams[3]) == #"{"reason":"ExpiredToken","timestamp":\#(ServiceDriver.epoch * 1000)}"#)
    #expect(driver.answer(streams[4]) == #"{"reason":"Teapot"}"# && driver.reason(streams[9]) == "Teapot")
    #expect(driver.reason(driver.send(token: [0xDE, 0xAD] + [UInt8](repeating: 1, count: 30))) == "BadDeviceToken")
    let truth = driver.ended()
    #expect(truth.accepted == 6)
    #expect(truth.refused.map { "\($0): \($1)" }.sorted() == ["400 BadDeviceToken: 1", "410 ExpiredToken: 1", "410 Unregistered: 1", "418 Teapot: 2"])
  }

  @Test("429 for a token as often as said, over all connections, while others pass")
  func times() throws {
    var rules = FaultRules()
    rules.common.http2.refuse = [ServiceFaults.Refuse(Faults.Selection(tokens: [.numbered(2)]), .tooManyRequests, times: 3)]
    let made = ServiceDriver.service(rules)
    let (first, second) = (try ServiceDriver(made), try ServiceDriver(made))
    #expect(first.send(numbers: 1...3).map { first.reason($0) } == [nil, "TooManyRequests", nil])
    #expect(second.send(numbers: 2...2).map { second.reason($0) } == ["TooManyRequests"])
    #expect(first.send(numbers: 2...2).map { first.reason($0) } == ["TooManyRequests"])
    #expect(second.send(numbers: 2...2).map { second.answer($0) } == ["200"])
  }

  @Test("bursts refuse the end of each stretch")
  func bursts() throws {
    let driver = try ServiceDriver { $0.bursts = [ServiceFaults.Burst(every: 10, length: 3)] }
    let refused = driver.send(numbers: 1...20).enumerated().filter { driver.reason($1) == "ServiceUnavailable" }.map(\.offset)
    #expect(refused == [7, 8, 9, 17, 18, 19])
  }

  @Test("no answer, taken or not, leaves the stream open", arguments: [true, false])
  func noAnswer(isTaken: Bool) throws {
    let driver = try ServiceDriver { $0.noAnswer = [ServiceFaults.Silence(Faults.Selection(every: 2), isTaken: isTaken)] }
    let streams = driver.send(numbers: 1...4)
    #expect(streams.map { driver.answer($0) } == ["200", nil, "200", nil])
    driver.pass(.seconds(60))
    #expect(driver.answer(streams[1]) == nil && driver.connection.end == nil)
    #expect(driver.memory.requests.map(\.isAnswered) == (isTaken ? [true, false, true, false] : [true, true]))
    let truth = driver.ended()
    #expect((truth.accepted, truth.unanswered, truth.dropped) == (isTaken ? (4, 2, 0) : (2, 0, 2)))
  }

  @Test(
    "RST_STREAM with REFUSED_STREAM is not processed; with another code it may have been", arguments: [(7, false), (2, true), (8, false)] as [(UInt32, Bool)])
  func reset(code: UInt32, isTaken: Bool) throws {
    let driver = try ServiceDriver { $0.reset = [ServiceFaults.Reset(Faults.Selection(every: 3), code: code, isTaken: isTaken)] }
    let streams = driver.send(numbers: 1...6)
    #expect(streams.map { driver.reset($0) } == [nil, nil, code, nil, nil, code])
    #expect(streams.map { driver.answer($0) } == ["200", "200", nil, "200", "200", nil])
    let truth = driver.ended()
    #expect((truth.accepted, truth.unanswered) == (isTaken ? (6, 2) : (4, 0)))
    #expect((truth.unprocessed, truth.dropped) == (code == 7 ? (2, 0) : (0, isTaken ? 0 : 2)))
  }

  @Test("answers come late by a fixed time")
  func fixedDelay() throws {
    let driver = try ServiceDriver { $0.delay = .fixed(.milliseconds(20)) }
    let streams = driver.send(numbers: 1...3)
    driver.pass(.milliseconds(19))
    #expect(streams.allSatisfy { driver.answer($0) == nil })
    driver.pass(.milliseconds(1))
    #expect(streams.allSatisfy { driver.answer($0) == "200" })
    #expect(driver.ended().unanswered == 0)
  }

  @Test(
    "answers come late by a distribution, each in its own time, and the mean is right",
    arguments: [ServiceFaults.Delay.uniform(.milliseconds(10), .milliseconds(30)), .exponential(mean: .milliseconds(20))])
  func delays(delay: ServiceFaults.Delay) throws {
    let driver = try ServiceDriver { $0.delay = delay }
    let start = driver.now
    let streams = driver.send(numbers: 1...900)
    var arrivals: [Int32: Duration] = [:]
    var known = 0
    while arrivals.count < 900, driver.now.since(start) < .seconds(10) {
      driver.pass(.milliseconds(1))
      for frame in driver.frames[known...] where frame.type == 1 { arrivals[frame.stream] = driver.now.since(start) }
      known = driver.frames.count
    }
    let times = streams.compactMap { arrivals[$0]?.inSeconds }
    let mean = times.reduce(0, +) / Double(times.count)
    #expect(times.count == 900 && (0.017...0.023).contains(mean), "mean \(mean)")
    #expect(times != times.sorted(), "answers overtake each other")
    if case .uniform = delay { #expect((times.min() ?? 0) >= 0.0095 && (times.max() ?? 1) <= 0.032) } else { #expect((times.max() ?? 0) > 0.06) }
    #expect(driver.ended().unanswered == 0)
  }

  @Test("an answer that its client did not wait for was taken, and unanswered")
  func givenUp() throws {
    let driver = try ServiceDriver { $0.delay = .fixed(.seconds(5)) }
    let streams = driver.send(numbers: 1...3)
    driver.receive(HTTP2Wire.frame(3, 0, streams[1], HTTP2Wire.word(8)))
    driver.pass(.seconds(5))
    #expect(streams.map { driver.answer($0) } == ["200", nil, "200"])
    driver.send(numbers: 4...5)
    let truth = driver.ended()
    #expect((truth.accepted, truth.unanswered) == (5, 3), "the stream that was given up, and two whose connection ended")
  }

  @Test("the stream limit is one for tokens until the first valid request, and free for certificates")
  func firstLimit() throws {
    let certificate = try ServiceDriver(ServiceDriver.service())
    certificate.send()
    #expect(certificate.limits == [1000])
    let key = try ProviderKey.make(keyIdentifier: "K", teamIdentifier: "T")
    let made = ServiceDriver.service(keys: [ServiceKey(keyIdentifier: "K", teamIdentifier: "T", key: key.publicKey)])
    let driver = try ServiceDriver(made, client: ServiceClient())
    #expect(driver.limits == [1])
    driver.send([("authorization", "bearer x")])
    #expect(driver.limits == [1], "an invalid one changes nothing")
    let token = [("authorization", "bearer " + (try key.token(issuedAt: ServiceDriver.epoch)))]
    driver.send(token)
    driver.send(token)
    #expect(driver.limits == [1, 1000])
  }

  @Test("the limit changes in mid-flight, and falls to another after an error until the next success")
  func limits() throws {
    let driver = try ServiceDriver { faults in
      faults.limits = [
        ServiceFaults.LimitChange(Faults.Breakpoint(after: 3), limit: 5), ServiceFaults.LimitChange(Faults.Breakpoint(after: 6), limit: 70),
      ]
      faults.errorStreamLimit = 2
      faults.refuse = [ServiceFaults.Refuse(Faults.Selection(tokens: [.numbered(8)]))]
    }
    for number in 1...9 as ClosedRange<UInt32> { driver.send(numbers: number...number) }
    #expect(driver.limits == [1000, 5, 70, 2, 70])
  }

  @Test("whoever passes the limit is sent away with code 7 and Apple's words; what was within is answered")
  func violation() throws {
    let driver = try ServiceDriver {
      $0.streamLimit = 3
      $0.delay = .fixed(.milliseconds(10))
    }
    let streams = driver.send(numbers: 1...5)
    let goAway = try #require(driver.goAways.first)
    #expect(goAway == (streams[2], 7, "Maximum active streams violated for this endpoint"))
    driver.pass(.milliseconds(10))
    #expect(streams.map { driver.answer($0) } == ["200", "200", "200", nil, nil])
    #expect(driver.connection.end == .close)
    let truth = driver.ended()
    #expect((truth.accepted, truth.unprocessed, truth.unanswered) == (3, 2, 0))
  }

  @Test("GOAWAY after n requests names the n-th: what is behind it is not processed, what is before is answered")
  func goAway() throws {
    let driver = try ServiceDriver {
      $0.goAway = ServiceFaults.GoAway(Faults.Breakpoint(after: 4, connections: 1), code: 0, reason: "Shutdown")
      $0.delay = .fixed(.milliseconds(10))
    }
    let streams = driver.send(numbers: 1...7)
    #expect(driver.goAways.count == 1 && driver.goAways.first ?? (0, 9, "") == (streams[3], 0, #"{"reason":"Shutdown"}"#))
    #expect(driver.connection.end == nil, "it waits for its own answers")
    driver.pass(.milliseconds(10))
    #expect(streams.map { driver.answer($0) } == ["200", "200", "200", "200", nil, nil, nil])
    #expect(driver.connection.end == .close)
    #expect(driver.memory.requests.compactMap(\.token) == (1...4).map { .numbered($0) })
    let truth = driver.ended()
    #expect((truth.accepted, truth.unprocessed) == (4, 3))
    let second = try ServiceDriver((driver.service, driver.memory))
    #expect(second.send(numbers: 1...10).allSatisfy { second.answer($0) == nil } && second.goAways.isEmpty)
    second.pass(.milliseconds(10))
    #expect(second.ended().accepted == 14)
  }

  @Test("a stream that was begun before the last one and completed after GOAWAY is still processed")
  func goAwayInterleaved() throws {
    let driver = try ServiceDriver { $0.goAway = ServiceFaults.GoAway(Faults.Breakpoint(after: 1)) }
    let (slow, fast, late) = (driver.request(token: Frames.token(1)), driver.request(token: Frames.token(2)), driver.request(token: Frames.token(3)))
    let bodyByteCount = 9 + ServiceDriver.payload.count
    driver.receive(Array(slow.bytes.dropLast(bodyByteCount)))
    driver.receive(fast.bytes)
    #expect(driver.goAways.first?.lastStreamID == fast.stream)
    driver.receive(Array(slow.bytes.suffix(bodyByteCount)) + late.bytes)
    #expect([slow, fast, late].map { driver.answer($0.stream) } == ["200", "200", nil])
    #expect(driver.ended().accepted == 2)
  }

  @Test("a connection is cut with the n-th request, taken or not", arguments: [true, false], [true, false])
  func cut(isTaken: Bool, isReset: Bool) throws {
    let driver = try ServiceDriver { $0.cut = [ServiceFaults.Cut(Faults.Breakpoint(after: 3), isTaken: isTaken, isReset: isReset)] }
    let streams = driver.send(numbers: 1...5)
    #expect(driver.connection.end == (isReset ? .reset : .close))
    // A reset loses what was on its way; an end of the stream does not.
    #expect(streams.map { driver.answer($0) } == (isReset ? [nil, nil, nil, nil, nil] : ["200", "200", nil, nil, nil]))
    driver.send()
    let truth = driver.ended()
    // The last request came after the end.
    #expect((truth.accepted, truth.dropped) == (isTaken ? (3, 3) : (2, 4)))
    #expect(truth.unanswered == (isReset ? 2 : 0) + (isTaken ? 1 : 0))
  }

  @Test("a connection can be cut or sent away before its first request, on the first connections only")
  func atOnce() throws {
    var rules = FaultRules()
    rules.common.http2.cut = [ServiceFaults.Cut(Faults.Breakpoint(after: 0, connections: 1), isReset: false)]
    let made = ServiceDriver.service(rules)
    #expect(try ServiceDriver(made).connection.end == .close)
    let second = try ServiceDriver(made)
    #expect(second.answer(second.send()) == "200")
    let away = try ServiceDriver { $0.goAway = ServiceFaults.GoAway(Faults.Breakpoint(after: 0), reason: "BadCertificateEnvironment") }
    #expect(away.goAways.first ?? (1, 1, "") == (0, 0, #"{"reason":"BadCertificateEnvironment"}"#) && away.connection.end == .close)
  }

  @Test("a drain answers 503 Shutdown so many times, then says GOAWAY")
  func drain() throws {
    let driver = try ServiceDriver { $0.drain = ServiceFaults.Drain(Faults.Breakpoint(after: 2), answers: 3) }
    let streams = driver.send(numbers: 1...7)
    #expect(streams.map { driver.answer($0) } == ["200", "200"] + Array(repeating: #"{"reason":"Shutdown"}"#, count: 3) + [nil, nil])
    #expect(driver.goAways.first ?? (0, 1, "") == (streams[4], 0, #"{"reason":"Shutdown"}"#))
    let truth = driver.ended()
    #expect((truth.accepted, truth.refused, truth.unprocessed) == (2, [ServiceRefusal(.shutdown): 3], 2))
  }

  @Test("the service's own end lets what has come be answered")
  func shutDown() throws {
    let driver = try ServiceDriver { $0.delay = .fixed(.milliseconds(10)) }
    let streams = driver.send(numbers: 1...2)
    driver.shutDown()
    let late = driver.send(numbers: 3...3)
    driver.pass(.milliseconds(10))
    #expect((streams + late).map { driver.answer($0) } == ["200", "200", nil])
    #expect(driver.connection.end == .close && driver.ended().accepted == 2)
  }

  @Test("an idle connection gets a GOAWAY that says so, and only an idle one")
  func idle() throws {
    let driver = try ServiceDriver(faults: { _ in }, rules: { $0.service.idleLimit = .seconds(60) })
    for _ in 0..<5 {
      driver.pass(.seconds(40))
      #expect(driver.answer(driver.send()) == "200")
    }
    driver.pass(.seconds(59))
    #expect(driver.connection.end == nil)
    driver.pass(.seconds(61))
    #expect(driver.connection.end == .close && driver.goAways.first?.text == #"{"reason":"IdleTimeout"}"#)
  }

  @Test("each app of a connection meets its own rules; those of the connection are the first app's")
  func apps() throws {
    var rules = FaultRules()
    var news = Faults()
    news.http2.refuse = [ServiceFaults.Refuse(Faults.Selection(every: 2))]
    news.http2.goAway = ServiceFaults.GoAway(Faults.Breakpoint(after: 6))
    var chat = Faults()
    chat.http2.refuse = [ServiceFaults.Refuse(Faults.Selection(every: 3), .unregistered)]
    chat.http2.goAway = ServiceFaults.GoAway(Faults.Breakpoint(after: 2))
    rules.apps = [ServiceDriver.topic: news, "com.example.chat": chat]
    let key = try ProviderKey.make(keyIdentifier: "K", teamIdentifier: "T")
    let made = ServiceDriver.service(rules, keys: [ServiceKey(keyIdentifier: "K", teamIdentifier: "T", key: key.publicKey)])
    let driver = try ServiceDriver(made, client: ServiceClient())
    driver.defaults.append(("authorization", "bearer " + (try key.token(issuedAt: ServiceDriver.epoch))))
    var reasons: [String?] = []
    for number in 1...3 as ClosedRange<UInt32> {
      reasons += driver.send(numbers: number...number).map { driver.reason($0) }
      reasons += driver.send(numbers: number...number, [("apns-topic", "com.example.chat")]).map { driver.reason($0) }
    }
    #expect(reasons == [nil, nil, "BadDeviceToken", nil, nil, "Unregistered"])
    #expect(driver.goAways.count == 1)
    driver.connection.ended()
    #expect(driver.service.truth().mapValues(\.accepted) == [ServiceDriver.topic: 2, "com.example.chat": 2])
  }
}
