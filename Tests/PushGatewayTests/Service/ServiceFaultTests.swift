internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Testing

/// The fault rules of the HTTP/2 service: what clients see, and how the truth counts it.
struct ServiceFaultTests {
  @Test("refusals by token, prefix and every n-th, by the first rule that matches; 410 has a timestamp")
  func refuse() throws {
    let driver = try ServiceDriver { faults in
      faults.refuse = [
        ServiceFaults.Refuse(
          Faults.Selection(tokens: [.numbered(3)]), ServiceRefusal(.unregistered), timestamp: 1_700_000_000_123),
        ServiceFaults.Refuse(Faults.Selection(tokens: [.numbered(4)]), .expiredToken),
        ServiceFaults.Refuse(Faults.Selection(prefixes: ["dead"])),
        ServiceFaults.Refuse(Faults.Selection(every: 5), ServiceRefusal(status: 418, reason: "Teapot")),
      ]
    }
    let streams = driver.send(numbers: 1...10)
    #expect(driver.answer(streams[2]) == #"{"reason":"Unregistered","timestamp":1700000000123}"#)
    #expect(driver.answer(streams[3]) == #"{"reason":"ExpiredToken","timestamp":\#(ServiceDriver.epoch * 1000)}"#)
    #expect(driver.answer(streams[4]) == #"{"reason":"Teapot"}"#)
    #expect(driver.reason(streams[9]) == "Teapot")
    #expect(driver.reason(driver.send(token: [0xDE, 0xAD] + [UInt8](repeating: 1, count: 30))) == "BadDeviceToken")
    let truth = driver.ended()
    #expect(truth.accepted == 6)
    #expect(
      truth.refused.map { "\($0): \($1)" }.sorted() == [
        "400 BadDeviceToken: 1", "410 ExpiredToken: 1", "410 Unregistered: 1", "418 Teapot: 2",
      ])
  }

  @Test("a rule with times refuses a token that often, over all connections, and others are accepted")
  func times() throws {
    var rules = FaultRules()
    rules.common.http2.refuse = [
      ServiceFaults.Refuse(Faults.Selection(tokens: [.numbered(2)]), .tooManyRequests, times: 3)
    ]
    let made = ServiceDriver.service(rules)
    let (first, second) = (try ServiceDriver(made), try ServiceDriver(made))
    #expect(first.send(numbers: 1...3).map { first.reason($0) } == [nil, "TooManyRequests", nil])
    #expect(second.send(numbers: 2...2).map { second.reason($0) } == ["TooManyRequests"])
    #expect(first.send(numbers: 2...2).map { first.reason($0) } == ["TooManyRequests"])
    #expect(second.send(numbers: 2...2).map { second.answer($0) } == ["200"])
  }

  @Test("bursts refuse the last requests of each interval")
  func bursts() throws {
    let driver = try ServiceDriver { $0.bursts = [ServiceFaults.Burst(every: 10, length: 3)] }
    let refused = driver.send(numbers: 1...20).enumerated().filter { driver.reason($1) == "ServiceUnavailable" }.map(
      \.offset)
    #expect(refused == [7, 8, 9, 17, 18, 19])
  }

  @Test("a request without a response, accepted or not, leaves the stream open", arguments: [true, false])
  func noAnswer(isTaken: Bool) throws {
    let driver = try ServiceDriver {
      $0.noAnswer = [ServiceFaults.Silence(Faults.Selection(every: 2), isTaken: isTaken)]
    }
    let streams = driver.send(numbers: 1...4)
    #expect(streams.map { driver.answer($0) } == ["200", nil, "200", nil])
    driver.pass(.seconds(60))
    #expect(driver.answer(streams[1]) == nil)
    #expect(driver.connection.end == nil)
    #expect(driver.memory.requests.map(\.isAnswered) == (isTaken ? [true, false, true, false] : [true, true]))
    let truth = driver.ended()
    #expect((truth.accepted, truth.unanswered, truth.dropped) == (isTaken ? (4, 2, 0) : (2, 0, 2)))
  }

  @Test(
    "RST_STREAM with REFUSED_STREAM means not processed; with another code it may be processed",
    arguments: [(7, false), (2, true), (8, false)] as [(UInt32, Bool)])
  func reset(code: UInt32, isTaken: Bool) throws {
    let driver = try ServiceDriver {
      $0.reset = [ServiceFaults.Reset(Faults.Selection(every: 3), code: code, isTaken: isTaken)]
    }
    let streams = driver.send(numbers: 1...6)
    #expect(streams.map { driver.reset($0) } == [nil, nil, code, nil, nil, code])
    #expect(streams.map { driver.answer($0) } == ["200", "200", nil, "200", "200", nil])
    let truth = driver.ended()
    #expect((truth.accepted, truth.unanswered) == (isTaken ? (6, 2) : (4, 0)))
    #expect((truth.unprocessed, truth.dropped) == (code == 7 ? (2, 0) : (0, isTaken ? 0 : 2)))
  }

  @Test("responses are delayed by a fixed time")
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
    "responses are delayed by a distribution with the right mean",
    arguments: [
      ServiceFaults.Delay.uniform(.milliseconds(10), .milliseconds(30)), .exponential(mean: .milliseconds(20)),
    ])
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
    #expect(times.count == 900, "mean \(mean)")
    #expect((0.017...0.023).contains(mean), "mean \(mean)")
    #expect(times != times.sorted(), "responses overtake each other")
    if case .uniform = delay {
      #expect((times.min() ?? 0) >= 0.0095)
      #expect((times.max() ?? 1) <= 0.032)
    } else {
      #expect((times.max() ?? 0) > 0.06)
    }
    #expect(driver.ended().unanswered == 0)
  }

  @Test("a request whose client did not wait for the response is accepted and unanswered")
  func givenUp() throws {
    let driver = try ServiceDriver { $0.delay = .fixed(.seconds(5)) }
    let streams = driver.send(numbers: 1...3)
    driver.receive(HTTP2Wire.frame(3, 0, streams[1], HTTP2Wire.word(8)))
    driver.pass(.seconds(5))
    #expect(streams.map { driver.answer($0) } == ["200", nil, "200"])
    driver.send(numbers: 4...5)
    let truth = driver.ended()
    #expect((truth.accepted, truth.unanswered) == (5, 3), "the reset stream, and two whose connection ended")
  }

  @Test("the stream limit is 1 with tokens until the first valid request, and the full limit with certificates")
  func firstLimit() throws {
    let certificate = try ServiceDriver(ServiceDriver.service())
    certificate.send()
    #expect(certificate.limits == [1000])
    let key = try ProviderKey.make(keyIdentifier: "K", teamIdentifier: "T")
    let made = ServiceDriver.service(keys: [ServiceKey(keyIdentifier: "K", teamIdentifier: "T", key: key.publicKey)])
    let driver = try ServiceDriver(made, client: ServiceClient())
    #expect(driver.limits == [1])
    driver.send([("authorization", "bearer x")])
    #expect(driver.limits == [1], "an invalid request does not change the limit")
    let token = [("authorization", "bearer " + (try key.token(issuedAt: ServiceDriver.epoch)))]
    driver.send(token)
    driver.send(token)
    #expect(driver.limits == [1, 1000])
  }

  @Test("the stream limit changes during a connection, and differs from an error until the next success")
  func limits() throws {
    let driver = try ServiceDriver { faults in
      faults.limits = [
        ServiceFaults.LimitChange(Faults.Breakpoint(after: 3), limit: 5),
        ServiceFaults.LimitChange(Faults.Breakpoint(after: 6), limit: 70),
      ]
      faults.errorStreamLimit = 2
      faults.refuse = [ServiceFaults.Refuse(Faults.Selection(tokens: [.numbered(8)]))]
    }
    for number in 1...9 as ClosedRange<UInt32> { driver.send(numbers: number...number) }
    #expect(driver.limits == [1000, 5, 70, 2, 70])
  }

  @Test("a client above the stream limit gets GOAWAY with code 7 and Apple's text; earlier requests are answered")
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

  @Test("GOAWAY after n requests names the n-th: later requests are not processed, earlier ones are answered")
  func goAway() throws {
    let driver = try ServiceDriver {
      $0.goAway = ServiceFaults.GoAway(Faults.Breakpoint(after: 4, connections: 1), code: 0, reason: "Shutdown")
      $0.delay = .fixed(.milliseconds(10))
    }
    let streams = driver.send(numbers: 1...7)
    #expect(driver.goAways.count == 1)
    #expect(driver.goAways.first ?? (0, 9, "") == (streams[3], 0, #"{"reason":"Shutdown"}"#))
    #expect(driver.connection.end == nil, "the service first sends its own responses")
    driver.pass(.milliseconds(10))
    #expect(streams.map { driver.answer($0) } == ["200", "200", "200", "200", nil, nil, nil])
    #expect(driver.connection.end == .close)
    #expect(driver.memory.requests.compactMap(\.token) == (1...4).map { .numbered($0) })
    let truth = driver.ended()
    #expect((truth.accepted, truth.unprocessed) == (4, 3))
    let second = try ServiceDriver((driver.service, driver.memory))
    #expect(second.send(numbers: 1...10).allSatisfy { second.answer($0) == nil })
    #expect(second.goAways.isEmpty)
    second.pass(.milliseconds(10))
    #expect(second.ended().accepted == 14)
  }

  @Test("a stream below the last one that is completed after the GOAWAY is still processed")
  func goAwayInterleaved() throws {
    let driver = try ServiceDriver { $0.goAway = ServiceFaults.GoAway(Faults.Breakpoint(after: 1)) }
    let (slow, fast, late) = (
      driver.request(token: Frames.token(1)), driver.request(token: Frames.token(2)),
      driver.request(token: Frames.token(3))
    )
    let bodyByteCount = 9 + ServiceDriver.payload.count
    driver.receive(Array(slow.bytes.dropLast(bodyByteCount)))
    driver.receive(fast.bytes)
    #expect(driver.goAways.first?.lastStreamID == fast.stream)
    driver.receive(Array(slow.bytes.suffix(bodyByteCount)) + late.bytes)
    #expect([slow, fast, late].map { driver.answer($0.stream) } == ["200", "200", nil])
    #expect(driver.ended().accepted == 2)
  }

  @Test("a connection is cut at the n-th request, accepted or not", arguments: [true, false], [true, false])
  func cut(isTaken: Bool, isReset: Bool) throws {
    let driver = try ServiceDriver {
      $0.cut = [ServiceFaults.Cut(Faults.Breakpoint(after: 3), isTaken: isTaken, isReset: isReset)]
    }
    let streams = driver.send(numbers: 1...5)
    #expect(driver.connection.end == (isReset ? .reset : .close))
    // A reset loses responses in flight; an end of the stream does not.
    #expect(
      streams.map { driver.answer($0) } == (isReset ? [nil, nil, nil, nil, nil] : ["200", "200", nil, nil, nil]))
    driver.send()
    let truth = driver.ended()
    // The last request arrived after the end.
    #expect((truth.accepted, truth.dropped) == (isTaken ? (3, 3) : (2, 4)))
    #expect(truth.unanswered == (isReset ? 2 : 0) + (isTaken ? 1 : 0))
  }

  @Test("a connection can be cut or get a GOAWAY before its first request, on the first connections only")
  func atOnce() throws {
    var rules = FaultRules()
    rules.common.http2.cut = [ServiceFaults.Cut(Faults.Breakpoint(after: 0, connections: 1), isReset: false)]
    let made = ServiceDriver.service(rules)
    #expect(try ServiceDriver(made).connection.end == .close)
    let second = try ServiceDriver(made)
    #expect(second.answer(second.send()) == "200")
    let away = try ServiceDriver {
      $0.goAway = ServiceFaults.GoAway(Faults.Breakpoint(after: 0), reason: "BadCertificateEnvironment")
    }
    #expect(away.goAways.first ?? (1, 1, "") == (0, 0, #"{"reason":"BadCertificateEnvironment"}"#))
    #expect(away.connection.end == .close)
  }

  @Test("a drain answers a number of requests with 503 Shutdown, then sends GOAWAY")
  func drain() throws {
    let driver = try ServiceDriver { $0.drain = ServiceFaults.Drain(Faults.Breakpoint(after: 2), answers: 3) }
    let streams = driver.send(numbers: 1...7)
    #expect(
      streams.map { driver.answer($0) } == ["200", "200"] + Array(repeating: #"{"reason":"Shutdown"}"#, count: 3) + [
        nil, nil,
      ])
    #expect(driver.goAways.first ?? (0, 1, "") == (streams[4], 0, #"{"reason":"Shutdown"}"#))
    let truth = driver.ended()
    #expect((truth.accepted, truth.refused, truth.unprocessed) == (2, [ServiceRefusal(.shutdown): 3], 2))
  }

  @Test("when the service stops, earlier requests are answered")
  func shutDown() throws {
    let driver = try ServiceDriver { $0.delay = .fixed(.milliseconds(10)) }
    let streams = driver.send(numbers: 1...2)
    driver.shutDown()
    let late = driver.send(numbers: 3...3)
    driver.pass(.milliseconds(10))
    #expect((streams + late).map { driver.answer($0) } == ["200", "200", nil])
    #expect(driver.connection.end == .close)
    #expect(driver.ended().accepted == 2)
  }

  @Test("only an idle connection gets a GOAWAY with IdleTimeout")
  func idle() throws {
    let driver = try ServiceDriver(faults: { _ in }, rules: { $0.service.idleLimit = .seconds(60) })
    for _ in 0..<5 {
      driver.pass(.seconds(40))
      #expect(driver.answer(driver.send()) == "200")
    }
    driver.pass(.seconds(59))
    #expect(driver.connection.end == nil)
    driver.pass(.seconds(61))
    #expect(driver.connection.end == .close)
    #expect(driver.goAways.first?.text == #"{"reason":"IdleTimeout"}"#)
  }

  @Test("each app of a connection has its own rules; the first app's rules apply to the connection")
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
    let made = ServiceDriver.service(
      rules, keys: [ServiceKey(keyIdentifier: "K", teamIdentifier: "T", key: key.publicKey)])
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
