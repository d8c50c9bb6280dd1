internal import Testing

@testable internal import PushWire

/// Time, trouble and cancelling.
extension RequestMachineTests {
  // MARK: Time

  @Test(
    "a request without an answer times out, and a late answer is ignored",
    arguments: LanePolicy.OnUnknown.allCases)
  func timeout(onUnknown: LanePolicy.OnUnknown) throws {
    let lane = RequestDriver { policy, requests in
      policy.onUnknown = onUnknown
      requests.silence = .seconds(1_000)
    }
    lane.publish(2)
    lane.connect()
    lane.pump()
    lane.pass(.seconds(10))
    lane.publish()
    lane.pump()
    lane.answer(1)
    #expect(lane.pump() == .wait(until: lane.input.now + .seconds(20)))
    let tag = try #require(lane.forget(0))
    lane.pass(.seconds(20))
    lane.pump()
    #expect(lane.cancelledStreams == [1])
    #expect(lane.openPositions.contains(2))
    lane.expect(unknown: 0, under: onUnknown)
    lane.lateAnswer(tag)
    lane.look()
    #expect(lane.outcomes[0] != .accepted(.confirmed))
    #expect(!lane.settledTwice)
  }

  @Test("a notification without any answer is unknown after its attempts")
  func timeoutsEnd() {
    let lane = RequestDriver { policy, requests in
      policy.attempts = 3
      requests.silence = .seconds(1_000)
    }
    lane.publish()
    lane.connect()
    for _ in 0..<3 {
      lane.pump()
      #expect(lane.openPositions == [0])
      _ = lane.forget(0)
      lane.pass(.seconds(30))
      lane.pump()
      lane.pass(.seconds(4))
    }
    // Each resend puts it in doubt again.
    #expect(lane.outcomes == [0: .unknown])
    #expect(lane.inDoubt == [0..<1, 0..<1])
    #expect(lane.requested.count == 3)
  }

  @Test("with requests in flight and no received bytes, a PING is sent, and without a pong the connection is closed")
  func silence() {
    let lane = RequestDriver { _, requests in requests.pingTimeout = .seconds(10) }
    lane.publish()
    lane.connect()
    lane.pump()
    lane.pass(.seconds(10))
    lane.pump()
    #expect(lane.pings == [1])
    lane.heard()
    lane.pong(1)
    lane.pass(.seconds(10))
    #expect(lane.pump() == .wait(until: lane.input.now + .seconds(10)))
    #expect(lane.pings == [1, 2])
    lane.pass(.seconds(10))
    // The request's own time-out ends with it.
    _ = lane.forget(0)
    #expect(lane.pump() == .leave)
  }

  @Test("new requests in place of timed-out ones do not hide a dead peer")
  func deafPeer() {
    let lane = RequestDriver { policy, requests in
      policy.attempts = 50
      requests.timeout = .seconds(5)
      requests.pingTimeout = .seconds(10)
    }
    lane.publish()
    lane.connect()
    lane.pump()
    for _ in 0..<4 {
      _ = lane.forget(0)
      lane.pass(.seconds(5))
      if lane.pump() == .leave { return #expect(lane.pings == [1]) }
      lane.pass(.seconds(1))
      if lane.pump() == .leave { return #expect(lane.pings == [1]) }
    }
    Issue.record("it stays")
  }

  @Test("an idle connection that is kept gets a PING after an hour, and is closed without a pong")
  func ping() {
    let lane = RequestDriver { _, requests in requests.pingTimeout = .seconds(10) }
    lane.publish()
    lane.connect()
    lane.pump()
    lane.answer(0)
    #expect(lane.pump() == .wait(until: lane.input.now + .seconds(3_600)))
    lane.pass(.seconds(3_600))
    #expect(lane.pump() == .wait(until: lane.input.now + .seconds(10)))
    #expect(lane.pings == [1])
    lane.pong(1)
    lane.heard()
    #expect(lane.pump() == .wait(until: lane.input.now + .seconds(3_600)))
    lane.pass(.seconds(3_600))
    lane.pump()
    lane.pass(.seconds(10))
    #expect(lane.pump() == .leave)
    lane.close(.byUs)
    #expect(lane.pump() == .wait(until: nil), "nothing waits for a connection")
  }

  @Test("an idle connection that is not kept is closed, which is not a failure")
  func idle() {
    let lane = RequestDriver(isKept: false)
    lane.publish()
    lane.connect()
    lane.pump()
    lane.answer(0)
    #expect(lane.pump() == .wait(until: lane.input.now + .seconds(180)))
    lane.pass(.seconds(180))
    #expect(lane.pump() == .leave)
    lane.close(.byUs)
    #expect(lane.failures == 0)
    #expect(lane.pump() == .wait(until: nil))
  }

  @Test("without a token the lane waits for one before it connects")
  func postponed() {
    let lane = RequestDriver()
    lane.publish()
    #expect(lane.pump() == .dial)
    lane.postponed(until: lane.input.now + .seconds(600))
    #expect(lane.pump() == .wait(until: lane.input.now + .seconds(600)))
    lane.pass(.seconds(600))
    #expect(lane.pump() == .dial)
  }

  // MARK: Trouble

  @Test("a service that answers 5xx gets no new notifications")
  func waitingLimit() {
    let lane = RequestDriver(streamLimit: 4) { _, requests in requests.waitingLimit = 8 }
    lane.publish(100)
    lane.connect()
    for _ in 0..<10 {
      lane.pump()
      for position in lane.openPositions { lane.answer(position, .backsOff) }
    }
    #expect(lane.sent == 8)
    #expect(lane.waitingCount == 8)
  }

  @Test("a connection whose peer refuses every stream is replaced after a hundred of them")
  func refusesEverything() {
    let lane = RequestDriver(streamLimit: 10)
    lane.publish(10)
    lane.connect()
    var isLeft = false
    for _ in 0..<1_000 where !isLeft {
      switch lane.pump() {
      case .leave: isLeft = true
      case .wait(let until?): if lane.openPositions.isEmpty { lane.input.now = until }
      default: break
      }
      for position in lane.openPositions { lane.end(position, .refused) }
    }
    #expect(isLeft)
    #expect(lane.requested.count < 130)
    lane.close(.byUs)
    #expect(lane.failures == 1)
  }

  @Test("when the service refuses the app, nothing more is sent on any connection until everything is cancelled")
  func paused() {
    let lane = RequestDriver(streamLimit: 2)
    lane.publish(5)
    lane.connect()
    lane.pump()
    lane.answer(0, .pausesApp, outcome: RequestMachineTests.refused)
    lane.pump()
    #expect(lane.requested == [0, 1])
    #expect(lane.pausedBy == RequestMachineTests.refused)
    #expect(lane.outcomes.isEmpty, "the answer is no verdict on the notification")
    #expect(lane.inDoubt.isEmpty, "the answer is no verdict on the notification")
    lane.close()
    lane.pass(.seconds(60))
    #expect(lane.pump() == .wait(until: nil))
    lane.input.isCancelled = true
    lane.pump()
    #expect(lane.settled == 5)
    #expect(lane.outcomes == [0: .cancelled, 1: .unknown, 2: .cancelled, 3: .cancelled, 4: .cancelled])
  }

  // MARK: Cancelling

  @Test("when all is cancelled, the rest leaves the ring at once, and requests in flight get their answers")
  func cancelAll() {
    let lane = RequestDriver(streamLimit: 3)
    lane.publish(10)
    lane.connect()
    lane.pump()
    lane.answer(1, .backsOff)
    lane.input.isCancelled = true
    lane.pump()
    #expect(lane.openPositions == [0, 2])
    #expect(lane.sent == 10)
    #expect(lane.outcomes[1] == .cancelled)
    #expect(lane.outcomes.count == 8)
    lane.answer(0)
    lane.answer(2)
    lane.pump()
    #expect(lane.settled == 10)
    #expect(lane.outcomes[2] == .accepted(.confirmed))
  }

  @Test("notifications that wait in doubt when all is cancelled are unknown, also without a connection")
  func cancelDoubt() {
    let lane = RequestDriver()
    lane.publish(3)
    lane.connect()
    lane.pump()
    lane.close()
    lane.input.isCancelled = true
    #expect(lane.pump() == .wait(until: nil))
    #expect(lane.outcomes == [0: .unknown, 1: .unknown, 2: .unknown])
    #expect(lane.settled == 3)
  }

  @Test("one of two campaigns is cancelled: its waiting notifications do not wait for their time")
  func cancelOne() {
    let lane = RequestDriver()
    lane.publish(2)
    lane.campaigns = [0: 2]
    lane.connect()
    lane.pump()
    lane.answer(0, .backsOff)
    lane.answer(1, .backsOff)
    lane.cancel(2)
    lane.pump()
    #expect(lane.outcomes == [0: .cancelled])
    #expect(lane.waitingCount == 1)
  }
}
