internal import Testing

@testable internal import PushWire

/// A request on which the service cuts the connection is found among its neighbours.
@Suite("The search for requests that cut connections") struct RequestPoisonTests {
  /// A lane against a service that processes requests in order and cuts the connection on some of
  /// them.
  private struct Service {
    let lane: RequestDriver
    var bad: Set<UInt64>
    /// It cuts every connection at the first request.
    var isDown = false
    private(set) var cuts = 0

    /// Runs until the lane waits, or for this many rounds.
    mutating func run(rounds: Int = 20_000) {
      for _ in 0..<rounds {
        switch lane.pump() {
        case .dial: lane.connect()
        case .leave: lane.close(.byUs)
        case .wait(let until):
          if !lane.isDisconnected, answerOne() { continue }
          guard let until else { return }
          lane.input.now = until
        default: return
        }
      }
    }

    private mutating func answerOne() -> Bool {
      if let ping = lane.takePing() {
        lane.heard()
        lane.pong(ping)
        return true
      }
      guard let next = lane.openInOrder.first else { return false }
      if isDown || bad.contains(next) {
        cuts += 1
        lane.close()
      } else {
        lane.answer(next)
      }
      return true
    }
  }

  @Test(
    "one poison in a full window is rejected, all others are accepted, and none is sent more than five times",
    arguments: [0, 1, 499, 998, 999] as [UInt64])
  func one(bad: UInt64) {
    let lane = RequestDriver(streamLimit: 1000, isKept: false)
    lane.publish(2_000)
    var service = Service(lane: lane, bad: [bad])
    service.run()
    expect(lane, rejected: [bad], of: 2_000)
    #expect(service.cuts <= 5, "\(service.cuts) connections")
    #expect(lane.failures == 0, "\(service.cuts) connections")
  }

  @Test(
    "several are found, wherever they are",
    arguments: [[3, 4], [0, 999], [100, 101, 102, 700], [0, 1, 2, 3, 4, 5, 6, 7]] as [[UInt64]])
  func several(bad: [UInt64]) {
    let lane = RequestDriver(streamLimit: 1000, isKept: false)
    lane.publish(1_500)
    var service = Service(lane: lane, bad: Set(bad))
    service.run()
    expect(lane, rejected: Set(bad), of: 1_500)
  }

  @Test("the search works with any limit of the peer, and with one attempt too", arguments: [1, 2, 17, 100])
  func limits(streamLimit: Int) {
    let lane = RequestDriver(streamLimit: streamLimit, isKept: false) { policy, _ in policy.attempts = 1 }
    lane.publish(300)
    var service = Service(lane: lane, bad: [42])
    service.run()
    expect(lane, rejected: [42], of: 300)
  }

  @Test("the only notification is rejected if a PING was answered before and after the second cut")
  func alone() {
    let lane = RequestDriver(isKept: false)
    lane.publish()
    var service = Service(lane: lane, bad: [0])
    service.run()
    expect(lane, rejected: [0], of: 1)
    #expect(lane.requested.count == 2)
    #expect(lane.pings.count == 2)
  }

  @Test("a service that cuts every connection rejects none, is tried with growing pauses, and later gets everything")
  func outage() {
    let lane = RequestDriver(streamLimit: 1000, isKept: false)
    lane.publish(1_000)
    var service = Service(lane: lane, bad: [], isDown: true)
    let start = lane.input.now
    while lane.input.now.since(start) < .seconds(900) { service.run(rounds: 10) }
    #expect(lane.outcomes.isEmpty, "\(service.cuts) connections")
    #expect(lane.failures > 5, "\(service.cuts) connections")
    #expect(service.cuts < 80, "\(service.cuts) connections")
    for position in UInt64(0)..<1_000 { #expect(lane.requested.count { $0 == position } <= 5) }
    service.isDown = false
    service.run()
    expect(lane, rejected: [], of: 1_000, copies: 6)
  }

  @Test(
    "an outage that begins after the first control rejects nothing: the suspect waits until the service works",
    arguments: [true, false])
  func outageBehindControl(isUnreachable: Bool) {
    let lane = RequestDriver(streamLimit: 1)
    lane.publish(6)
    lane.connect()
    lane.pump()
    lane.close()
    lane.connect()
    lane.pump()
    lane.answer(1)
    lane.pump()
    #expect(lane.requested == [0, 1, 0])
    lane.close()
    for _ in 0..<3 {
      #expect(lane.outcomes[0] == nil, "there was no answer since the second cut")
      if isUnreachable { lane.dialAndFail() } else { lane.connect() }
      if !isUnreachable {
        lane.pump()
        lane.close()
      }
    }
    var service = Service(lane: lane, bad: [])
    service.run()
    expect(lane, rejected: [], of: 6, copies: 3)
  }

  @Test(
    "with another policy for unknown notifications there is no search",
    arguments: [(LanePolicy.OnUnknown.hold, Outcome.held), (.drop, .unknown)])
  func policies(onUnknown: LanePolicy.OnUnknown, outcome: Outcome) {
    let lane = RequestDriver { policy, _ in policy.onUnknown = onUnknown }
    lane.publish(10)
    lane.connect()
    lane.pump()
    lane.close()
    #expect(lane.outcomes.count == 10)
    #expect(lane.outcomes.values.allSatisfy { $0 == outcome })
  }

  @Test("if all is cancelled during a search, the suspects become unknown")
  func cancelled() {
    let lane = RequestDriver()
    lane.publish(50)
    lane.connect()
    lane.pump()
    lane.close()
    lane.connect()
    lane.pump()
    lane.close()
    lane.input.isCancelled = true
    lane.pump()
    #expect(lane.settled == 50)
    #expect(lane.outcomes.values.count { $0 == .unknown } == 16)
    #expect(lane.outcomes.values.count { $0 == .cancelled } == 34)
  }

  private func expect(_ lane: RequestDriver, rejected: Set<UInt64>, of count: UInt64, copies: Int = 5) {
    #expect(lane.settled == count)
    #expect(!lane.settledTwice)
    var sent: [UInt64: Int] = [:]
    for position in lane.requested { sent[position, default: 0] += 1 }
    for position in 0..<count {
      #expect(
        lane.outcomes[position]
          == (rejected.contains(position) ? .rejected(.closedWithoutReason) : .accepted(.confirmed)), "\(position)")
      #expect(sent[position, default: 0] <= copies, "\(position)")
    }
  }
}
