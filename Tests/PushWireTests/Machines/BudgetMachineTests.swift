internal import Support
internal import Testing

@testable internal import PushWire

@Suite("Shares of a rate")
struct BudgetMachineTests {
  /// A node, what its demand is, and what is on its way to it.
  private struct Node {
    var machine: BudgetMachine
    var demand: Double
    var isAlive = true
    /// The store's answer to the last claim, and when that was made; nil: none is on its way.
    var answer: (share: Double, peers: [BudgetMachine.Peer], isUsed: Bool, asked: Instant)?
  }

  private static let validity = Duration.seconds(6)
  /// Longer: nobody else may have the share of a node that may still use it.
  private static let lease = Duration.seconds(10)
  /// How long the store knows of a share that was given up.
  private static let memory = Duration.seconds(2)

  /// Answers late or lost, nodes that are cut off, and demand that comes and goes.
  ///
  /// - Returns: whether all nodes together could use more than the limit in any second.
  private func exceeds(seed: UInt64, _ mistake: BudgetMachine.PlantedMistake? = nil) -> Bool {
    var random = SeededGenerator(seed: seed)
    let limit = Double.random(in: 1...50_000, using: &random)
    let longest: Int64 = [100, 1_500].randomElement(using: &random) ?? 1_500
    var now = Instant.start
    var nodes = (0..<Int.random(in: 1...4, using: &random)).map { _ in
      Node(machine: BudgetMachine(limit: limit, validity: Self.validity, plantedMistake: mistake), demand: 0)
    }
    var stored = [BudgetMachine.Peer?](repeating: nil, count: nodes.count)
    var heard = [Instant](repeating: now, count: nodes.count)
    var freed = [Instant?](repeating: nil, count: nodes.count)
    // What each could use, the latest last: in a second it uses no more than the most of that.
    var usable = [[(at: Instant, Double)]](repeating: [], count: nodes.count)
    func look() -> Bool {
      for index in nodes.indices { usable[index].append((now, nodes[index].machine.usable(now: now))) }
      let most = usable.indices.map { index in
        let first = usable[index].lastIndex { now.since($0.at) >= .seconds(1) } ?? 0
        usable[index].removeFirst(first)
        return usable[index].map(\.1).max() ?? 0
      }
      return most.reduce(0, +) > limit * 1.000_001
    }
    for _ in 0..<400 {
      now = now + .milliseconds(Int64.random(in: 1...longest, using: &random))
      if look() { return true }
      let index = Int.random(in: 0..<nodes.count, using: &random)
      switch Int.random(in: 0..<11, using: &random) {
      case ..<2: nodes[index].demand = Double.random(in: 0...(2 * limit), using: &random)
      case ..<3: nodes[index].isAlive.toggle()
      case ..<7 where nodes[index].isAlive:
        // Whoever asks again has lost the answer before.
        nodes[index].answer = nil
        let claim = nodes[index].machine.claim(demand: nodes[index].demand, now: now)
        guard random.chance(80) else { break }
        let others = stored.indices.filter { $0 != index }.compactMap { stored[$0] }
        let isUsed = freed.indices.contains { other in
          other != index && freed[other].map { now.since($0) < Self.memory } ?? false
        }
        let share = max(0, min(claim.share, limit - others.reduce(0) { $0 + $1.share }))
        stored[index] = BudgetMachine.Peer(share: share, demand: claim.demand)
        heard[index] = now
        if random.chance(80) { nodes[index].answer = (share, others, isUsed || !others.isEmpty, now) }
      case 10:
        // It has nothing more to send, and uses none of it from now on.
        nodes[index].machine = BudgetMachine(limit: limit, validity: Self.validity, plantedMistake: mistake)
        nodes[index].answer = nil
        if stored[index] != nil { freed[index] = now }
        stored[index] = nil
      default:
        guard let answer = nodes[index].answer else { break }
        nodes[index].machine.granted(
          answer.share, besides: answer.peers, isUsed: answer.isUsed, asked: answer.asked, now: now)
        nodes[index].answer = nil
      }
      for other in stored.indices where now.since(heard[other]) >= Self.lease { stored[other] = nil }
      if look() { return true }
    }
    return false
  }

  @Test("whatever is late or lost, all nodes together never use more than the limit in any second")
  func sum() { for seed in UInt64(0)..<500 { #expect(!exceeds(seed: seed), "seed \(seed)") } }

  @Test(
    "a node that uses more before the store has answered, or before others have used less for a second, is found",
    arguments: BudgetMachine.PlantedMistake.allCases)
  func mistakes(mistake: BudgetMachine.PlantedMistake) {
    #expect((UInt64(0)..<200).contains { exceeds(seed: $0, mistake) })
  }

  @Test("a node that asks again and again has its share a second after the first answer")
  func impatient() {
    var machine = BudgetMachine(limit: 100, validity: Self.validity)
    let peer = BudgetMachine.Peer(share: 50, demand: 100)
    for step in 0..<40 {
      let now = Instant.start + .milliseconds(step * 100)
      _ = machine.claim(demand: 100, now: now)
      machine.granted(50, besides: [peer], isUsed: true, asked: now, now: now)
      #expect(machine.usable(now: now) == (step > 10 ? 50 : 0), "\(step)")
    }
  }

  @Test("a share that becomes a little less while it waits counts no later")
  func shrinking() {
    var machine = BudgetMachine(limit: 100, validity: Self.validity)
    var now = Instant.start
    var share = 60.0
    for _ in 0..<8 {
      let claim = machine.claim(demand: 100, now: now)
      share = min(claim.share, share - 1)
      machine.granted(
        share, besides: [BudgetMachine.Peer(share: 100 - share, demand: 100)], isUsed: true, asked: now, now: now)
      now = now + .milliseconds(250)
    }
    #expect(machine.usable(now: now) > 40)
  }

  @Test("a node that has nothing to send for a moment keeps its share, and gives it up after that")
  func moment() {
    var machine = BudgetMachine(limit: 100, validity: Self.validity)
    let peer = BudgetMachine.Peer(share: 50, demand: 100)
    var shares: [Double] = []
    for step in 0..<40 {
      let now = Instant.start + .milliseconds(step * 100)
      let claim = machine.claim(demand: step < 20 || step == 25 ? 100 : 0, now: now)
      machine.granted(claim.share, besides: [peer], isUsed: true, asked: now, now: now)
      shares.append(machine.usable(now: now))
      let isHeld = (20..<35).contains(step) && step != 25
      #expect(machine.isHolding == isHeld, "\(step)")
    }
    #expect(shares[15..<35].allSatisfy { $0 == 50 })
    #expect(shares[35..<40].allSatisfy { $0 == 5 })
  }

  @Test("shares follow what nodes would use, and one that would use nothing keeps a little")
  func demand() {
    let limit = 900.0
    var machines = (0..<3).map { _ in BudgetMachine(limit: limit, validity: Self.validity) }
    var stored = [BudgetMachine.Peer](repeating: .init(share: 0, demand: 0), count: 3)
    func settle(_ demands: [Double]) -> [Double] {
      for round in 0..<6 {
        for index in machines.indices {
          let now = Instant.start + .seconds(round)
          let claim = machines[index].claim(demand: demands[index], now: now)
          let others = stored.indices.filter { $0 != index }.map { stored[$0] }
          let share = max(0, min(claim.share, limit - others.reduce(0) { $0 + $1.share }))
          stored[index] = .init(share: share, demand: claim.demand)
          machines[index].granted(share, besides: others, isUsed: true, asked: now, now: now)
        }
      }
      return machines.map { $0.usable(now: .start + .milliseconds(6_500)) }
    }
    #expect(settle([0, 0, 0]).allSatisfy { abs($0 - 300) < 1 })
    let one = settle([2 * limit, 0, 0])
    #expect(one[0] > 0.9 * limit)
    #expect(one[1] > 0.03 * limit)
    #expect(settle([limit, limit, limit]).allSatisfy { abs($0 - 300) < 1 })
    #expect(machines[0].usable(now: .start + .seconds(20)) == 0)
  }
}
