internal import PushWire
internal import Support
internal import Testing

/// What the search for poison costs: copies, connections and time.
@Suite("LaneMachine, the cost of a search")
struct LaneSearchTests {
  private struct Cost {
    var copies: [Int]
    var connections = 0
    var elapsed = Duration.zero
  }

  /// How stages are confirmed.
  enum Confirmation: CaseIterable {
    case probes
    case probesThatAreNotAnswered
    case quiet
    case commandWithoutIdentifiers
  }

  /// Plays a gateway with a round trip of 50 ms that closes silently on every poisoned
  /// notification, until everything is settled.
  private func play(
    _ count: UInt64, poison: Set<UInt64>, _ confirmation: Confirmation
  ) -> (lane: LaneDriver, cost: Cost)? {
    let lane = LaneDriver {
      $0.quiet = .seconds(1)
      $0.hasIdentifiers = confirmation != .commandWithoutIdentifiers
      if confirmation == .quiet { $0.confirm = .quiet }
    }
    lane.input.published = count
    lane.input.isDraining = true
    var cost = Cost(copies: Array(repeating: 0, count: Int(count)))
    let start = lane.now
    for _ in 0..<100_000 {
      switch lane.next() {
      case .dial:
        lane.pass(.milliseconds(100))
        cost.connections += 1
        lane.beginConnection()
      case .pack(let from, let to):
        lane.pack(to: to)
        for position in from..<to { cost.copies[Int(position)] += 1 }
        if (from..<to).contains(where: poison.contains) {
          lane.pass(.milliseconds(50))
          lane.close()
        }
      case .probe(let identifier):
        lane.beginProbe()
        guard confirmation == .probes else { continue }
        lane.pass(.milliseconds(50))
        lane.respond(.missingDeviceToken, identifier)
        lane.close()
      case .leave: lane.close(.byUs)
      case .wait(let until):
        guard lane.settled < count else {
          cost.elapsed = lane.now.since(start)
          return (lane, cost)
        }
        guard let until else { return nil }
        lane.input.now = max(lane.now, until)
      }
      if lane.isUnresponsive { return nil }
    }
    return nil
  }

  private func check(
    _ count: UInt64, poison: Set<UInt64>, _ confirmation: Confirmation, copies: Int, within limit: Duration
  ) throws {
    let (lane, cost) = try #require(play(count, poison: poison, confirmation), "\(poison.sorted()): it does not end")
    let rejected = Set(lane.outcomes.filter { $0.value == .rejected(.closedWithoutReason) }.map(\.key))
    #expect(rejected == poison)
    #expect(lane.outcomes.count == Int(count))
    #expect(!lane.settledTwice)
    let most = cost.copies.max() ?? 0
    #expect(most <= copies, "\(poison.sorted()): \(most) copies of one")
    #expect(cost.elapsed < limit, "\(poison.sorted()): \(cost.elapsed), \(cost.connections) connections")
  }

  private func positions(_ count: Int, of total: UInt64, seed: UInt64) -> Set<UInt64> {
    var random = SeededGenerator(seed: seed)
    var positions: Set<UInt64> = []
    while positions.count < count { positions.insert(UInt64.random(in: 0..<total, using: &random)) }
    return positions
  }

  @Test(
    "one among 20,000 is found with at most 5 copies of anything where probes are answered",
    arguments: 1...6 as ClosedRange<UInt64>)
  func probes(_ seed: UInt64) throws {
    try check(20_000, poison: positions(1, of: 20_000, seed: seed), .probes, copies: 5, within: .seconds(25))
  }

  @Test(
    "without probes with at most log₂ of the window, and within 25 s", arguments: Confirmation.allCases.dropFirst(),
    1...6 as ClosedRange<UInt64>)
  func quiet(_ confirmation: Confirmation, _ seed: UInt64) throws {
    try check(20_000, poison: positions(1, of: 20_000, seed: seed), confirmation, copies: 14, within: .seconds(25))
  }

  @Test("first and last are found within the same bounds", arguments: Confirmation.allCases, [0, 19_999] as [UInt64])
  func ends(_ confirmation: Confirmation, _ position: UInt64) throws {
    try check(20_000, poison: [position], confirmation, copies: confirmation == .probes ? 5 : 14, within: .seconds(25))
  }

  @Test("several in one window are found, and the copies stay bounded", arguments: Confirmation.allCases, [2, 5])
  func several(_ confirmation: Confirmation, _ count: Int) throws {
    let poison = positions(count, of: 20_000, seed: UInt64(count)).union([777, 778])
    try check(20_000, poison: poison, confirmation, copies: confirmation == .probes ? 5 : 14, within: .seconds(400))
  }

  @Test("the whole window of 262,144 is searched within the same copies")
  func wholeWindow() throws {
    try check(262_144, poison: [200_000], .probes, copies: 5, within: .seconds(60))
  }

  @Test("a connection that ended for another reason costs a few stages, not a whole search")
  func notPoison() throws {
    let lane = LaneDriver()
    lane.input.isDraining = true
    lane.connectAndSend(20_000)
    lane.close()
    var connections = 0
    while lane.settled < 20_000, connections < 100 {
      lane.connect()
      connections += 1
      _ = lane.next()
      if case .pack(_, let to) = lane.next() { lane.pack(to: to) }
      lane.respond(.missingDeviceToken, lane.probe())
      lane.close()
    }
    #expect(connections <= 5)
  }

  @Test("connections that close in a search are retried at once; empty ones back off as usual")
  func backoff() {
    let lane = LaneDriver { $0.attempts = 8 }
    lane.input.isDraining = true
    lane.input.published = 5_000
    var pauses: [Duration] = []
    var controls: [Duration] = []
    for _ in 0..<40 where !lane.isUnresponsive {
      let before = lane.now
      lane.connect()
      let pause = lane.now.since(before)
      switch lane.next() {
      case .pack(_, let to):
        pauses.append(pause)
        lane.pack(to: to)
      case .probe:
        controls.append(pause)
        lane.beginProbe()
      default: controls.append(pause)
      }
      lane.close()
    }
    #expect(lane.isUnresponsive, "an outage is no poison")
    #expect(lane.outcomes.isEmpty)
    // There is no pause before the first connection, and the usual one before the second.
    #expect(pauses.dropFirst(2).allSatisfy { $0 <= .milliseconds(50) }, "\(pauses)")
    #expect(controls.count == 7, "\(controls)")
    #expect((controls.last ?? .zero) >= .milliseconds(800), "\(controls)")
  }
}
