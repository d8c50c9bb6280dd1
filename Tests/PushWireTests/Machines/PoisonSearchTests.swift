internal import PushWire
internal import Testing

/// The spec's "Poison search": one bad notification must not use up its neighbours' attempts, and
/// must not cause their rejection.
@Suite("LaneMachine, isolation")
struct PoisonSearchTests {
  /// What a gateway does with a poisoned notification.
  enum Manner: CaseIterable {
    case closes
    case closesOnProbesToo
    case resets
    case answersZero
    case commandWithoutIdentifiers
  }

  private func lane(_ manner: Manner) -> LaneDriver {
    LaneDriver { if manner == .commandWithoutIdentifiers { $0.hasIdentifiers = false } }
  }

  /// Plays such a gateway until the lane has settled everything. Returns the number of connections;
  /// nil if the lane does not finish.
  private func play(_ lane: LaneDriver, _ manner: Manner, poison: Set<UInt64>) -> Int? {
    var connections = 0
    lane.input.isDraining = true
    for _ in 0..<3_000 {
      switch lane.next() {
      case .dial:
        connections += 1
        lane.beginConnection()
      case .pack(let from, let to):
        lane.pack(to: to)
        guard (from..<to).contains(where: poison.contains) else { continue }
        if manner == .answersZero { lane.respond(.invalidToken, 0) }
        lane.close()
      case .probe(let identifier):
        lane.beginProbe()
        switch manner {
        case .closesOnProbesToo: break
        case .answersZero: lane.respond(.missingDeviceToken, 0)
        default: lane.respond(.missingDeviceToken, identifier)
        }
        lane.close()
      case .leave:
        lane.close(.byUs)
      case .wait(let until?):
        if lane.settled == lane.input.published { return connections }
        lane.input.now = max(lane.now, until)
      case .wait(nil):
        return lane.settled == lane.input.published ? connections : nil
      }
      if lane.isUnresponsive { return nil }
    }
    return nil
  }

  @Test(
    "only the poisoned notification is rejected, at any place in the window",
    arguments: Manner.allCases, 0..<16 as Range<UInt64>)
  func onePoison(_ manner: Manner, _ position: UInt64) {
    let lane = lane(manner)
    lane.input.published = 16
    let connections = play(lane, manner, poison: [position])
    #expect(connections != nil, "it does not end")
    #expect((connections ?? 0) <= 24)
    for other in 0..<16 as Range<UInt64> {
      switch lane.outcomes[other] {
      case .accepted: #expect(other != position, "\(other)")
      case .rejected(.closedWithoutReason): #expect(other == position, "\(other)")
      default: Issue.record("\(other): \(String(describing: lane.outcomes[other]))")
      }
    }
    #expect(!lane.settledTwice)
  }

  @Test(
    "several poisoned notifications are all found, also neighbours", arguments: Manner.allCases,
    [[0, 1], [3, 9, 10], [14, 15], [0, 7, 15]] as [Set<UInt64>])
  func several(_ manner: Manner, _ poison: Set<UInt64>) {
    let lane = lane(manner)
    lane.input.published = 16
    #expect(play(lane, manner, poison: poison) != nil, "it does not end")
    let rejected = Set(lane.outcomes.filter { $0.value == .rejected(.closedWithoutReason) }.map(\.key))
    #expect(rejected == poison)
    #expect(lane.outcomes.count == 16)
    #expect(!lane.settledTwice)
  }

  @Test("after a silent close half of them are sent first, and each stage is confirmed before the next")
  func stages() {
    let lane = LaneDriver()
    lane.connectAndSend(16)
    lane.close()
    #expect(lane.inDoubt == [0..<16])
    lane.input.published = 32
    lane.connect()
    #expect(lane.next() == .pack(from: 0, to: 8))
    lane.pack(to: 8)
    lane.probe()
    lane.close()
    lane.connect()
    // No probe has been answered here yet, so the first is sent alone, to see whether the gateway
    // closes because of it.
    lane.respond(.missingDeviceToken, lane.probe())
    lane.close()
    lane.connect()
    #expect(
      lane.next() == .pack(from: 0, to: 3), "two more stages and the second death of the one that is found: 3² ≥ 8")
    for (from, to) in [(0, 3), (3, 6), (6, 8)] as [(UInt64, UInt64)] {
      #expect(lane.next() == .pack(from: from, to: to))
      lane.pack(to: to)
      lane.respond(.missingDeviceToken, lane.probe())
      #expect(lane.outcome(from..<to) == .accepted(.confirmed))
      lane.close()
      lane.connect()
    }
    #expect(lane.next() == .pack(from: 8, to: 16), "the other half, before what is new")
    lane.pack(to: 16)
    lane.respond(.missingDeviceToken, lane.probe())
    lane.close()
    lane.connect()
    #expect(lane.next() == .pack(from: 16, to: 32), "the search is over")
  }

  @Test("a lone notification is rejected only after a control has succeeded, and not if it then gets through")
  func notRejected() {
    let lane = LaneDriver()
    lane.connectAndSend(1)
    lane.close()
    #expect(lane.outcomes.isEmpty)
    #expect(lane.inDoubt == [0..<1])
    lane.connect()
    let control = lane.probe()
    #expect(lane.sent == 0, "the control carries nothing but its probe")
    lane.respond(.missingDeviceToken, control)
    lane.close()
    lane.connect()
    #expect(lane.next() == .pack(from: 0, to: 1))
    lane.pack(to: 1)
    lane.respond(.missingDeviceToken, lane.probe())
    #expect(lane.outcomes[0] == .accepted(.confirmed))
  }

  @Test("a control without probes carries nothing for a quiet period; then the suspect follows on its connection")
  func silentControl() {
    let lane = LaneDriver { $0.hasIdentifiers = false }
    lane.connectAndSend(1)
    lane.close()
    lane.connect()
    #expect(lane.next() == .wait(until: lane.now + .seconds(5)))
    lane.pass(.seconds(5))
    #expect(lane.next() == .wait(until: lane.now))
    #expect(lane.next() == .pack(from: 0, to: 1))
    lane.pack(to: 1)
    lane.close()
    #expect(lane.outcomes.isEmpty)
    lane.connect()
    #expect(lane.next() == .wait(until: lane.now + .seconds(5)))
    lane.pass(.seconds(5))
    #expect(lane.next() == .wait(until: lane.now))
    #expect(lane.outcomes[0] == .rejected(.closedWithoutReason))
    #expect(lane.sent == 1)
  }

  /// A notification whose connection closed when it was alone, after a control that succeeded.
  private func closedAfterControl() -> LaneDriver {
    let lane = LaneDriver()
    lane.connectAndSend(1)
    lane.close()
    lane.connect()
    lane.respond(.missingDeviceToken, lane.probe())
    lane.close()
    lane.connect()
    #expect(lane.next() == .pack(from: 0, to: 1))
    lane.pack(to: 1)
    lane.close()
    #expect(lane.outcomes.isEmpty)
    #expect(lane.sent == 0)
    #expect(lane.inDoubt.isEmpty)
    return lane
  }

  @Test("a suspect is rejected after two closes, if a control has succeeded before and after the last one")
  func rejected() {
    let lane = closedAfterControl()
    lane.connect()
    lane.respond(.missingDeviceToken, lane.probe())
    lane.close()
    #expect(lane.outcomes[0] == .rejected(.closedWithoutReason))
    #expect(lane.sent == 1)
    #expect(lane.settled == 1)
    lane.input.published = 2
    lane.connect()
    #expect(lane.next() == .pack(from: 1, to: 2), "the search is over")
  }

  @Test(
    "an outage that begins after the first control rejects nothing: the suspect waits until the gateway works",
    arguments: [true, false])
  func outageBehindControl(isUnreachable: Bool) {
    let lane = closedAfterControl()
    for failure in 1...3 {
      if isUnreachable {
        lane.dialAndFail()
      } else {
        lane.connect()
        lane.close()
      }
      #expect(lane.outcomes.isEmpty)
      #expect(lane.sent == 0)
      #expect(lane.inDoubt == (failure == 1 ? [0..<1] : []), "it will be sent again: one more copy")
    }
    lane.connect()
    lane.respond(.missingDeviceToken, lane.probe())
    lane.close()
    #expect(lane.outcomes.isEmpty, "that was its first control")
    lane.connect()
    #expect(lane.next() == .pack(from: 0, to: 1))
    lane.pack(to: 1)
    lane.respond(.missingDeviceToken, lane.probe())
    #expect(lane.outcomes[0] == .accepted(.confirmed))
  }

  @Test("a control succeeds when its probe stays unanswered for the longest time of an answer")
  func unansweredControl() {
    let lane = LaneDriver()
    lane.input.isDraining = true
    lane.connectAndSend(1)
    lane.respond(.missingDeviceToken, lane.probe())
    lane.close()
    lane.connectAndSend(2)
    lane.close()
    lane.connect()
    lane.probe()
    lane.pass(.seconds(20))
    #expect(lane.next() == .leave)
    lane.close(.byUs)
    lane.connect()
    #expect(lane.next() == .pack(from: 1, to: 2))
  }

  @Test(
    "a gateway that closes even empty connections is unresponsive after the attempts, and nothing is rejected",
    arguments: [2, 5])
  func unresponsive(_ attempts: Int) {
    let lane = LaneDriver { $0.attempts = attempts }
    lane.connectAndSend(1)
    lane.close()
    for death in 2...attempts {
      #expect(!lane.isUnresponsive)
      lane.connect()
      lane.close()
      #expect(lane.isUnresponsive == (death == attempts), "death \(death)")
    }
    #expect(lane.outcomes.isEmpty)
    #expect(lane.failures == attempts)
  }

  @Test("if the gateway closes because of the control's probe, the next control carries nothing")
  func probeKills() {
    let lane = LaneDriver()
    lane.connectAndSend(1)
    lane.close()
    lane.connect()
    lane.probe()
    lane.close()
    lane.connect()
    #expect(lane.next() == .wait(until: lane.now + .seconds(5)))
  }

  @Test(
    "a suspect that is cancelled or has expired ends the suspicion: the next one needs its own control",
    arguments: [true, false])
  func suspectLeaves(_ isConnected: Bool) {
    let lane = LaneDriver()
    lane.connectAndSend(1)
    lane.close()
    lane.input.published = 2
    lane.connect()
    lane.respond(.missingDeviceToken, lane.probe())
    lane.close()
    if isConnected { lane.connect() }
    lane.pack(to: 1, .abandoned)
    #expect(lane.outcomes[0] == .unknown)
    if !isConnected { lane.connect() }
    #expect(lane.next() == .pack(from: 1, to: 2))
    lane.pack(to: 2)
    lane.close()
    #expect(lane.outcomes[1] == nil, "rejected after its first close")
    lane.connect()
    lane.probe()
  }

  @Test(
    "with hold or drop there is no search: the outcome follows at once",
    arguments: [LanePolicy.OnUnknown.hold, .drop])
  func noSearch(_ onUnknown: LanePolicy.OnUnknown) {
    let lane = LaneDriver { $0.onUnknown = onUnknown }
    lane.connectAndSend(16)
    lane.close()
    #expect(lane.outcomes.count == 16)
    lane.input.published = 32
    lane.connect()
    #expect(lane.next() == .pack(from: 16, to: 32))
  }
}
