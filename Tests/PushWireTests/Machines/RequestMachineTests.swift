internal import Testing

@testable internal import PushWire

@Suite("The conduct of a lane over HTTP/2") struct RequestMachineTests {
  static let refused = Outcome.rejected(.payloadTooLarge)

  // MARK: Streams and order

  @Test("the lane dials when there is something to send, and uses every stream that the peer allows")
  func limit() {
    let lane = RequestDriver(streamLimit: 3)
    #expect(lane.pump() == .wait(until: nil))
    lane.publish(10)
    lane.connect()
    lane.pump()
    #expect(lane.requested == [0, 1, 2])
    #expect(lane.sent == 3)
    lane.answer(1)
    lane.pump()
    #expect(lane.requested == [0, 1, 2, 3])
    #expect(lane.settled == 0)
    lane.answer(0)
    lane.pump()
    #expect(lane.settled == 2)
    #expect(lane.largestOpenCount == 3)
  }

  @Test("when the limit falls below the requests in flight, nothing new is sent until there is room")
  func fallingLimit() {
    let lane = RequestDriver(streamLimit: 5)
    lane.publish(10)
    lane.connect()
    lane.pump()
    lane.streamLimit = 2
    for position in UInt64(0)..<3 {
      lane.answer(position)
      lane.pump()
      #expect(lane.requested.count == 5)
    }
    lane.answer(3)
    lane.pump()
    #expect(lane.requested.count == 6)
  }

  @Test("outcomes come in any order, neighbours become one run, and settled moves over what is complete")
  func order() {
    let lane = RequestDriver()
    lane.publish(8)
    lane.padding = [3]
    lane.campaigns = [6: 2, 7: 2]
    lane.connect()
    lane.pump()
    for position in [7, 5, 1, 2, 6, 4] as [UInt64] { lane.answer(position) }
    lane.look()
    #expect(lane.settled == 0)
    #expect(
      lane.settlements == [
        Settlement(from: 1, to: 3, count: 2, campaign: 1, outcome: .accepted(.confirmed)),
        Settlement(from: 4, to: 6, count: 2, campaign: 1, outcome: .accepted(.confirmed)),
        Settlement(from: 6, to: 8, count: 2, campaign: 2, outcome: .accepted(.confirmed)),
      ])
    lane.answer(0)
    lane.look()
    #expect(lane.settled == 8)
    #expect(lane.outcomes.count == 7)
  }

  @Test("a peer that takes no bytes gets no requests")
  func unwritable() {
    let lane = RequestDriver()
    lane.publish(5)
    lane.connect()
    lane.input.isWritable = false
    lane.pump()
    #expect(lane.requested.isEmpty)
  }

  // MARK: One row for each verdict

  @Test(
    "a final answer settles its notification and no other",
    arguments: [
      (ProviderVerdict.accepted, Outcome.accepted(.confirmed)), (.rejected, refused), (.badToken, refused),
      (.gone, refused),
    ])
  func final(verdict: ProviderVerdict, outcome: Outcome) {
    let lane = RequestDriver()
    lane.publish(3)
    lane.connect()
    lane.pump()
    lane.answer(1, verdict, outcome: outcome)
    lane.pump()
    #expect(lane.outcomes == [1: outcome])
    #expect(lane.openPositions == [0, 2])
    #expect(lane.madeProgress)
    #expect(lane.inDoubt.isEmpty)
    #expect(lane.pausedBy == nil)
    #expect(lane.badTokens == (verdict == .badToken ? 1 : 0))
  }

  @Test(
    "what the service put off waits longer each time while others continue; then it is given up",
    arguments: [ProviderVerdict.backsOff, .delaysToken, .keepsToken])
  func backsOff(verdict: ProviderVerdict) {
    let refusal = ProviderRefusal(status: 503, reason: .serviceUnavailable)
    let lane = RequestDriver { policy, _ in policy.attempts = 4 }
    lane.publish(2)
    lane.connect()
    lane.pump()
    lane.answer(1)
    for (attempt, longest) in [1, 2, 4].enumerated() {
      lane.answer(0, verdict, outcome: .rejected(.provider(refusal)))
      let asked = lane.input.now
      lane.publish()
      lane.pump()
      #expect(lane.openPositions == [UInt64(attempt + 2)], "the next one goes on")
      lane.answer(UInt64(attempt + 2))
      guard case .wait(let until?) = lane.pump() else { return #expect(Bool(false), "it waits") }
      #expect(until.since(asked) >= .seconds(longest) / 2)
      #expect(until.since(asked) <= .seconds(longest))
      lane.input.now = until
      lane.pump()
      #expect(lane.openPositions == [0])
      #expect(lane.inDoubt.isEmpty)
    }
    lane.answer(0, verdict, outcome: .rejected(.provider(refusal)))
    lane.pump()
    #expect(lane.outcomes[0] == .rejected(.gaveUp(refusal)))
    #expect(lane.settled == 5)
    #expect("\(Rejection.gaveUp(refusal))" == "given up after 503 ServiceUnavailable")
  }

  @Test("a device token with too many requests waits with all its notifications, and others continue")
  func pacing() {
    let lane = RequestDriver(streamLimit: 1)
    lane.publish(4)
    lane.tokens = [0: -1, 1: -1, 2: -2, 3: -1]
    lane.connect()
    lane.pump()
    lane.answer(0, .delaysToken, retryAfter: 10, token: -1)
    lane.pump()
    #expect(lane.openPositions == [2], "1 has the same token")
    #expect(lane.sent == 3, "1 has the same token")
    lane.answer(2)
    #expect(lane.pump() == .wait(until: lane.input.now + .seconds(10)))
    #expect(lane.requested == [0, 2])
    #expect(lane.waitingCount == 3)
    lane.pass(.seconds(10))
    for position in [0, 1, 3] as [UInt64] {
      lane.pump()
      #expect(lane.openPositions == [position])
      lane.answer(position)
    }
    lane.pump()
    #expect(lane.settled == 4)
    #expect(lane.outcomes.values.allSatisfy { $0 == .accepted(.confirmed) })
  }

  @Test(
    "the service's Retry-After counts, up to a limit", arguments: [(UInt32(20), 20), (90_000, 300)])
  func retryAfter(asked: UInt32, expected: Int) {
    let lane = RequestDriver()
    lane.publish()
    lane.connect()
    lane.pump()
    lane.answer(0, .backsOff, retryAfter: asked)
    #expect(lane.pump() == .wait(until: lane.input.now + .seconds(expected)))
  }

  @Test(
    "a finishing connection is closed after its last answer, and the notification is first on the next one",
    arguments: [ProviderVerdict.expiredToken, .disputesToken, .needsOwnConnection, .reconnects])
  func reconnects(verdict: ProviderVerdict) {
    let lane = RequestDriver(streamLimit: 3)
    lane.publish(5)
    lane.connect()
    lane.pump()
    lane.answer(1, verdict)
    lane.pump()
    #expect(lane.requested == [0, 1, 2], "nothing new goes over it")
    lane.answer(0)
    lane.answer(2)
    #expect(lane.pump() == .leave)
    lane.close(.byUs)
    lane.connect()
    lane.pump()
    #expect(lane.requested == [0, 1, 2, 1, 3, 4])
    #expect(lane.inDoubt.isEmpty)
  }

  @Test("an answer outside the protocol leaves its notification unknown", arguments: LanePolicy.OnUnknown.allCases)
  func meaningless(onUnknown: LanePolicy.OnUnknown) {
    let lane = RequestDriver { policy, _ in policy.onUnknown = onUnknown }
    lane.publish(2)
    lane.connect()
    lane.pump()
    lane.answer(1)
    lane.answer(0, .unknown)
    lane.pump()
    lane.expect(unknown: 0, under: onUnknown)
  }

  // MARK: Streams that end without an answer

  @Test("a refused stream is resent at once and without doubt; repeated refusals cause pauses")
  func refusedStream() {
    let lane = RequestDriver()
    lane.publish()
    lane.connect()
    lane.pump()
    lane.end(0, .refused)
    lane.pump()
    #expect(lane.requested == [0, 0])
    #expect(lane.inDoubt.isEmpty)
    lane.end(0, .refused)
    guard case .wait(let until?) = lane.pump() else { return #expect(Bool(false), "it waits") }
    #expect(lane.requested == [0, 0])
    #expect(until.since(lane.input.now) <= .milliseconds(50))
  }

  @Test("a stream reset with another code leaves its notification unknown", arguments: LanePolicy.OnUnknown.allCases)
  func reset(onUnknown: LanePolicy.OnUnknown) {
    let lane = RequestDriver { policy, _ in policy.onUnknown = onUnknown }
    lane.publish(3)
    lane.connect()
    lane.pump()
    lane.answer(2)
    lane.end(1, .unknown)
    lane.pump()
    lane.expect(unknown: 1, under: onUnknown)
    #expect(lane.openPositions.contains(0))
  }

  @Test("after a GOAWAY, requests above it are resent on the next connection, and lower ones get their answers")
  func goAway() {
    let lane = RequestDriver(streamLimit: 4)
    lane.publish(6)
    lane.connect()
    lane.pump()
    lane.goAway()
    lane.end(2, .refused)
    lane.end(3, .refused)
    guard case .wait = lane.pump() else { return #expect(Bool(false), "it waits for the other two") }
    lane.answer(1)
    lane.answer(0)
    #expect(lane.pump() == .leave)
    lane.close(.byUs)
    lane.connect()
    lane.pump()
    #expect(lane.requested == [0, 1, 2, 3, 2, 3, 4, 5])
    #expect(lane.inDoubt.isEmpty)
    #expect(lane.failures == 0)
  }

  @Test(
    "a connection that ends leaves sent notifications unknown, and others certainly unsent",
    arguments: LanePolicy.OnUnknown.allCases)
  func loss(onUnknown: LanePolicy.OnUnknown) {
    let lane = RequestDriver { policy, _ in policy.onUnknown = onUnknown }
    lane.publish(5)
    lane.connect()
    lane.pump()
    lane.answer(4)
    lane.close(.silent, unsent: [2, 3])
    #expect(lane.inDoubt == (onUnknown == .resend ? [0..<2] : []))
    lane.connect()
    lane.pump()
    switch onUnknown {
    case .resend:
      // One of these two requests may have caused the close.
      #expect(lane.openPositions == [0])
      lane.answerAll()
      lane.pump()
      lane.answerAll()
      lane.pump()
      #expect(lane.openPositions == [2, 3])
    case .hold:
      #expect(lane.openPositions == [2, 3])
      #expect(lane.outcomes[0] == .held)
      #expect(lane.outcomes[1] == .held)
    case .drop:
      #expect(lane.openPositions == [2, 3])
      #expect(lane.outcomes[0] == .unknown)
      #expect(lane.outcomes[1] == .unknown)
    }
  }

  @Test("a gateway that refused our certificate has read nothing")
  func nothingWasRead() {
    let lane = RequestDriver()
    lane.publish(2)
    lane.connect()
    lane.pump()
    lane.close(.nothingWasRead)
    lane.connect()
    lane.pump()
    #expect(lane.inDoubt.isEmpty)
    #expect(lane.requested == [0, 1, 0])
  }

  @Test("after an unanswered connection the next one begins with a single request, and pauses grow")
  func trial() {
    let lane = RequestDriver(streamLimit: 10)
    lane.publish(10)
    lane.connect()
    lane.pump()
    lane.close(.byUs)
    lane.connect()
    lane.pump()
    #expect(lane.openPositions.count == 1)
    #expect(lane.failures == 1)
    lane.close(.byUs)
    #expect(lane.failures == 2)
    lane.connect()
    lane.pump()
    #expect(lane.openPositions.count == 1)
    lane.answerAll()
    lane.passToNextRequest()
    #expect(lane.openPositions.count > 1)
  }

  @Test("a stream that is refused repeatedly while others are answered is given up after its attempts")
  func refusedForGood() {
    let lane = RequestDriver(streamLimit: 10) { policy, _ in policy.attempts = 4 }
    lane.publish(100)
    lane.connect()
    var refused = 0
    for _ in 0..<1_000 where lane.outcomes[0] == nil {
      lane.pump()
      for position in lane.openPositions where position > 0 { lane.answer(position) }
      if lane.openPositions == [0] {
        refused += 1
        lane.end(0, .refused)
      }
      lane.publish()
      lane.pass(.seconds(1))
    }
    #expect(lane.outcomes[0] == .rejected(.streamRefused))
    #expect(refused == 4)
    #expect(lane.inDoubt.isEmpty)
  }

  @Test("a peer that refuses every stream, or goes away each time, refuses no notification")
  func refusedByAll() {
    let lane = RequestDriver(streamLimit: 2) { policy, _ in policy.attempts = 2 }
    lane.publish(2)
    for round in 0..<50 {
      if lane.isDisconnected { lane.connect() }
      lane.passToNextRequest()
      for position in lane.openPositions { lane.end(position, round % 2 == 0 ? .refused : .unprocessed) }
      lane.pump()
    }
    #expect(lane.outcomes.isEmpty)
    #expect(lane.inDoubt.isEmpty)
  }

  @Test("refused streams and 5xx answers are counted apart", arguments: [true, false])
  func kindsOfFailure(isRefusedFirst: Bool) {
    let lane = RequestDriver(streamLimit: 10) { policy, _ in policy.attempts = 2 }
    let refusal = Outcome.rejected(.provider(ProviderRefusal(status: 503, reason: .serviceUnavailable)))
    lane.publish(30)
    lane.connect()
    lane.pump()
    for isRefused in [isRefusedFirst, !isRefusedFirst] {
      if isRefused { lane.end(0, .refused) } else { lane.answer(0, .backsOff, outcome: refusal) }
      // The service works between the two.
      for _ in 0..<3 {
        lane.pass(.seconds(2))
        lane.pump()
        for position in lane.openPositions where position > 0 { lane.answer(position) }
      }
    }
    #expect(lane.outcomes[0] == nil, "each of them was the first of its kind")
    #expect(lane.outcomes.count == 29, "each of them was the first of its kind")
  }

  @Test("only a connection without any received bytes can prove that nothing was read")
  func lateAlert() {
    let lane = RequestDriver()
    lane.publish(3)
    lane.connect()
    lane.pump()
    lane.answer(1)
    lane.close(.nothingWasRead)
    #expect(lane.inDoubt == [0..<1, 2..<3])
  }
}
