internal import PushWire
internal import Testing

@Suite("A service that refuses everything") struct RequestRefusalTests {
  static let unrelated = Outcome.rejected(.provider(ProviderRefusal(status: 403, reason: .unrelatedKeyIdentifier)))

  @Test("a key that three new connections refuse is given up with the service's reason")
  func unwantedKey() {
    let lane = RequestDriver()
    lane.publish()
    for round in 0..<3 {
      // Neither the connection nor the notification is retried at once.
      lane.pass(.seconds(10))
      lane.connect()
      #expect(lane.pump() != .leave, "round \(round)")
      #expect(lane.openPositions == [0], "round \(round)")
      #expect(lane.pausedBy == nil, "round \(round)")
      lane.answer(0, .needsOwnConnection, outcome: Self.unrelated)
      guard lane.pump() == .leave else { break }
      lane.close(.byUs)
    }
    #expect(lane.pausedBy == Self.unrelated)
    #expect(lane.outcomes.isEmpty)
    #expect(lane.requested.count == 3)
    lane.input.isCancelled = true
    lane.pump()
    #expect(lane.outcomes == [0: .cancelled])
    #expect(lane.inDoubt.isEmpty)
  }

  @Test("before the first final answer a lane has 16 requests in flight, so a bad key costs few refusals")
  func unprovenKey() {
    let lane = RequestDriver()
    lane.publish(200)
    lane.connect()
    lane.pump()
    #expect(lane.openPositions == Array(0..<16))
    lane.answer(3)
    lane.pump()
    #expect(lane.openPositions.count == 100)
    lane.close(.byUs)
    lane.connect()
    lane.pump()
    #expect(lane.openPositions.count == 100, "the credential stays proven")
  }

  @Test("a key that was accepted before is tried on a new connection, each time")
  func wantedKey() {
    let lane = RequestDriver(streamLimit: 1)
    lane.publish(10)
    for position in UInt64(0)..<5 {
      lane.connect()
      lane.pump()
      lane.answer(position)
      lane.pump()
      lane.answer(position + 1, .needsOwnConnection, outcome: Self.unrelated)
      #expect(lane.pump() == .leave)
      lane.close(.byUs)
    }
    #expect(lane.pausedBy == nil)
    #expect(lane.outcomes.count == 5)
  }

  @Test("a peer without streams is left after an answer's time-out, but not if it allows streams again")
  func noStreams() {
    let lane = RequestDriver(streamLimit: 1)
    lane.publish(3)
    lane.connect()
    lane.pump()
    lane.answer(0)
    lane.streamLimit = 0
    let start = lane.input.now
    #expect(lane.pump() == .wait(until: start + .seconds(30)))
    lane.pass(.seconds(29))
    lane.heard()
    lane.pump()
    lane.streamLimit = 1
    lane.pump()
    #expect(lane.openPositions == [1])
    lane.answer(1)
    lane.streamLimit = 0
    lane.pump()
    lane.pass(.seconds(30))
    lane.heard()
    #expect(lane.pump() == .leave)
    lane.close(.byUs)
    lane.streamLimit = 1
    lane.connect()
    lane.pump()
    #expect(lane.openPositions == [2])
    #expect(lane.inDoubt.isEmpty)
  }
}
