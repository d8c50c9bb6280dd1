internal import Testing

@testable internal import PushWire

/// While a service puts every request off or does not answer at all, no attempts are counted.
@Suite("A service in an outage") struct RequestOutageTests {
  private static let unavailable = ProviderRefusal(status: 503, reason: .serviceUnavailable)
  private static let refused = Outcome.rejected(.provider(unavailable))

  @Test(
    "after ten answers that are not final, single requests are sent with growing pauses, and none is given up",
    arguments: [ProviderVerdict.backsOff, .keepsToken, .delaysToken])
  func singleRequests(verdict: ProviderVerdict) {
    let lane = RequestDriver(streamLimit: 12) { policy, _ in policy.attempts = 2 }
    lane.publish(30)
    lane.connect()
    lane.pump()
    #expect(lane.openPositions.count == 12)
    for position in lane.openPositions { lane.answer(position, verdict, outcome: Self.refused) }
    var pauses: [Duration] = []
    for _ in 0..<15 {
      let start = lane.input.now
      lane.passToNextRequest()
      pauses.append(lane.input.now.since(start))
      #expect(lane.openPositions.count == 1)
      lane.answer(lane.openPositions[0], verdict, outcome: Self.refused)
    }
    #expect(lane.outcomes.isEmpty)
    #expect(lane.inDoubt.isEmpty)
    #expect(pauses[0] >= .milliseconds(500), "\(pauses)")
    #expect(pauses[0] <= .seconds(1), "\(pauses)")
    #expect(pauses.dropFirst(8).allSatisfy { $0 >= .seconds(30) && $0 <= .seconds(60) }, "\(pauses)")
    #expect(lane.trouble?.cause == .refusal(Self.unavailable))
    #expect(lane.trouble?.nextTryAt != nil)
  }

  /// All of its 20 notifications were put off.
  private static func laneInOutage() -> RequestDriver {
    let lane = RequestDriver(streamLimit: 20)
    lane.publish(20)
    lane.connect()
    lane.pump()
    lane.answerAll(.backsOff, outcome: refused)
    return lane
  }

  @Test("a final answer ends the outage, and waiting notifications are sent at once")
  func recovery() {
    let lane = Self.laneInOutage()
    for _ in 0..<6 {
      lane.passToNextRequest()
      lane.answerAll(.backsOff, outcome: Self.refused)
    }
    lane.passToNextRequest()
    #expect(lane.openPositions.count == 1)
    lane.answerAll()
    lane.pump()
    #expect(lane.openPositions.count == 19)
    lane.answerAll()
    lane.pump()
    #expect(lane.settled == 20)
    #expect(lane.outcomes.values.allSatisfy { $0 == .accepted(.confirmed) })
  }

  @Test("a connection on which three single requests failed is replaced: other peers may be well")
  func replacement() {
    let lane = Self.laneInOutage()
    for _ in 0..<3 {
      #expect(lane.pump() != .leave)
      lane.passToNextRequest()
      lane.answerAll(.backsOff, outcome: Self.refused)
    }
    #expect(lane.pump() == .leave)
    lane.close(.byUs)
    let start = lane.input.now
    lane.connect()
    #expect(lane.openPositions.isEmpty)
    lane.passToNextRequest()
    // The pauses go on growing.
    #expect(lane.input.now.since(start) >= .seconds(4))
    #expect(lane.openPositions.count == 1)
    lane.answerAll()
    lane.pump()
    #expect(lane.openPositions.count == 19)
  }

  @Test("Retry-After holds the whole lane, up to its limit", arguments: [(UInt32(100), 100), (90_000, 300)])
  func retryAfter(asked: UInt32, expected: Int) {
    let lane = RequestDriver(streamLimit: 20)
    lane.publish(100)
    lane.connect()
    lane.pump()
    let start = lane.input.now
    lane.answerAll(.backsOff, outcome: Self.refused, retryAfter: asked)
    lane.passToNextRequest()
    #expect(lane.input.now.since(start) == .seconds(expected))
    #expect(lane.openPositions.count == 1)
  }

  @Test("answers that were on their way when an outage began do not count, even after a late final one")
  func beginning() {
    let lane = RequestDriver(streamLimit: 20) { policy, _ in policy.attempts = 1 }
    lane.publish(20)
    lane.connect()
    lane.pump()
    lane.answer(0)
    lane.pump()
    for position in UInt64(5)..<20 { lane.answer(position, .backsOff, outcome: Self.refused) }
    for position in UInt64(1)..<5 { lane.answer(position) }
    for _ in 0..<20 {
      lane.passToNextRequest()
      lane.answerAll(.backsOff, outcome: Self.refused)
    }
    #expect(lane.outcomes.keys.sorted() == [0, 1, 2, 3, 4])
    #expect(lane.outcomes.values.allSatisfy { $0 == .accepted(.confirmed) })
  }

  @Test("a burst among final answers delays only the notifications that it hit")
  func burst() {
    let lane = RequestDriver(streamLimit: 40)
    lane.publish(100)
    lane.connect()
    lane.pump()
    lane.answer(0)
    lane.pump()
    for position in UInt64(1)..<30 { lane.answer(position, .backsOff, outcome: Self.refused) }
    lane.pump()
    lane.answer(30)
    lane.pump()
    #expect(lane.openPositions.count == 40)
    #expect(lane.openPositions.allSatisfy { $0 > 30 })
  }

  @Test("when nothing is answered, single requests follow, and others' failures use up no attempts")
  func silence() {
    let lane = RequestDriver(streamLimit: 16) { policy, requests in
      policy.attempts = 3
      requests.silence = .seconds(10_000)
    }
    lane.publish(16)
    lane.connect()
    lane.pump()
    for round in 0..<20 {
      #expect(lane.openPositions.count == (round == 0 ? 16 : 1))
      lane.forgetAll()
      lane.pass(.seconds(30))
      if lane.pump() == .leave {
        lane.close(.byUs)
        lane.connect()
      }
      #expect(lane.trouble?.cause == .noAnswer)
      lane.passToNextRequest()
    }
    #expect(lane.outcomes.isEmpty)
    #expect(Set(lane.inDoubt.flatMap { Array($0) }).count == 16)
    for position in UInt64(0)..<16 { #expect(lane.requested.count { $0 == position } <= 3, "\(position)") }
    lane.answerAll()
    lane.pump()
    #expect(lane.openPositions.count == 15)
  }
}
