internal import PushWire
internal import Support
internal import Testing

@Suite("Turns of apps on one event loop")
struct TurnOrderTests {
  /// Flows whose jobs always request their next turn, as lanes with a full ring do.
  private struct World {
    var order = TurnOrder()
    var sent: [Int: Int] = [:]

    /// - Parameter lanes: jobs of the flow that are ready at the same time.
    mutating func add(weight: Int, lanes: Int = 1) -> Int {
      let flow = order.add(weight: weight)
      for _ in 0..<lanes { order.ready(flow) }
      return flow
    }

    /// - Returns: the flow that had its turn.
    mutating func turn(_ byteCount: (Int) -> Int) throws -> Int {
      let next = order.next()
      let flow = try #require(next)
      order.ready(flow)
      let bytes = byteCount(flow)
      order.ran(flow, byteCount: bytes)
      sent[flow, default: 0] += bytes
      return flow
    }
  }

  @Test(
    "bytes follow the weights, whatever the lanes of an app and the size of its turns",
    arguments: [[1, 1], [1, 3], [1, 100], [2, 3, 5], [1, 1, 1, 1, 10]], [1, 8] as [Int])
  func shares(weights: [Int], lanesOfFirst: Int) throws {
    for seed: UInt64 in 0..<20 {
      var random = SeededGenerator(seed: seed)
      var world = World()
      let flows = weights.enumerated().map { world.add(weight: $1, lanes: $0 == 0 ? lanesOfFirst : 1) }
      // A turn of a lane is up to four batches of 64 KiB.
      let sizes = flows.map { _ in Int.random(in: 500...262_144, using: &random) }
      let total = weights.reduce(0, +) * TurnOrder.quantum * 200
      while world.sent.values.reduce(0, +) < total {
        _ = try world.turn { flow in Int.random(in: 1...sizes[flow], using: &random) }
      }
      let sum = weights.reduce(0, +)
      for (flow, weight) in zip(flows, weights) {
        let share = Double(world.sent[flow, default: 0]) / Double(total)
        let due = Double(weight) / Double(sum)
        #expect(abs(share - due) <= 0.1 * due, "seed \(seed): weight \(weight) of \(weights) got \(share)")
      }
    }
  }

  /// Of each app's lanes, some wait: for answers, for a handshake, for a reader.
  @Test(
    "an app has its share while one of its lanes can send; what it leaves then is the others'",
    arguments: [(lanes: 1, share: 0.8..<1.6), (lanes: 2, share: 2.9..<3.1), (lanes: 8, share: 2.9..<3.1)])
  func waitingLanes(lanes: Int, share: Range<Double>) throws {
    let (turn, burst) = (262_144, 32 << 20)
    var order = TurnOrder()
    let (one, three) = (order.add(weight: 1), order.add(weight: 3))
    var sent = [one: 0, three: 0]
    var sinceWait = sent
    var now = 0
    // By the bytes that the loop has sent: when a lane that waits can send again.
    var waiting = [one, three].flatMap { flow in (0..<lanes).map { _ in (flow: flow, until: 0) } }
    while now < 8_000 * TurnOrder.quantum {
      for index in waiting.indices.reversed() where waiting[index].until <= now || order.isEmpty {
        order.ready(waiting.remove(at: index).flow)
      }
      let next = order.next()
      let flow = try #require(next)
      order.ran(flow, byteCount: turn)
      now += turn
      sent[flow, default: 0] += turn
      sinceWait[flow, default: 0] += turn
      if sinceWait[flow, default: 0] < burst {
        order.ready(flow)
      } else {
        sinceWait[flow] = 0
        waiting.append((flow, now + burst))
      }
    }
    let found = Double(sent[three, default: 0]) / Double(sent[one, default: 0])
    #expect(share.contains(found), "\(lanes) lanes: \(found)")
  }

  @Test("a weight that changes counts from the next round on")
  func changedWeight() throws {
    var world = World()
    let (first, second) = (world.add(weight: 1), world.add(weight: 1))
    for (weight, share) in [(1, 0.5), (9, 0.9), (3, 0.75)] {
      world.order.change(first, weight: weight)
      world.sent = [:]
      for _ in 0..<4_000 { _ = try world.turn { _ in 10_000 } }
      let (one, other) = (world.sent[first, default: 0], world.sent[second, default: 0])
      #expect(abs(Double(one) / Double(one + other) - share) < 0.02, "weight \(weight): \(one) and \(other)")
    }
  }

  @Test("an app that becomes ready waits for one turn of each other app, not for their queues")
  func latency() throws {
    var world = World()
    let busy = (0..<5).map { _ in world.add(weight: 100, lanes: 8) }
    for _ in 0..<1000 { _ = try world.turn { _ in 262_144 } }
    let small = world.order.add(weight: 1)
    for _ in 0..<100 {
      world.order.ready(small)
      var waited = 0
      while true {
        let next = world.order.next()
        let flow = try #require(next)
        if flow == small { break }
        waited += 1
        world.order.ready(flow)
        world.order.ran(flow, byteCount: 262_144)
      }
      world.order.ran(small, byteCount: 300)
      // A weight of 100 is 25 turns of four batches.
      #expect(waited <= busy.count * 26)
    }
  }

  @Test("who is alone is never held up, and owes nothing for that time")
  func alone() throws {
    var world = World()
    let first = world.add(weight: 1)
    for _ in 0..<10_000 {
      let flow = try world.turn { _ in 1 << 20 }
      #expect(flow == first)
    }
    let second = world.add(weight: 1)
    world.sent = [:]
    for _ in 0..<2_000 { _ = try world.turn { _ in 65_536 } }
    #expect(abs(world.sent[first, default: 0] - world.sent[second, default: 0]) <= 3 << 20)
  }

  @Test("an app that pauses after a large turn does not gain by that")
  func pauses() throws {
    var order = TurnOrder()
    let (steady, bursty) = (order.add(weight: 1), order.add(weight: 1))
    var sent = [steady: 0, bursty: 0]
    order.ready(steady)
    order.ready(bursty)
    var pause = 0
    for _ in 0..<20_000 {
      let next = order.next()
      let flow = try #require(next)
      let bytes = flow == bursty ? 1 << 20 : 65_536
      order.ran(flow, byteCount: bytes)
      sent[flow, default: 0] += bytes
      if flow == steady {
        order.ready(steady)
        // It comes back as soon as it is forgotten.
        pause -= 1
        if pause == 0 { order.ready(bursty) }
      } else {
        pause = 1
      }
    }
    let share = Double(sent[bursty, default: 0]) / Double(sent.values.reduce(0, +))
    #expect(share <= 0.55, "\(share)")
  }

  @Test("every job runs once, in any order of events", arguments: 0..<200 as Range<UInt64>)
  func everyJob(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var order = TurnOrder()
    var waiting: [Int: Int] = [:]
    for _ in 0..<1_000 {
      switch Int.random(in: 0..<10, using: &random) {
      case 0: waiting[order.add(weight: Int.random(in: 1...100, using: &random))] = 0
      case 1:
        if let flow = waiting.keys.sorted().first(where: { waiting[$0] == 0 }) {
          order.remove(flow)
          waiting[flow] = nil
        }
      case 2..<6:
        if let flow = waiting.keys.sorted().randomElement(using: &random) {
          order.ready(flow)
          waiting[flow, default: 0] += 1
        }
      default:
        let count = waiting.values.reduce(0, +)
        #expect(order.isEmpty == (count == 0), "seed \(seed)")
        guard let flow = order.next() else {
          #expect(count == 0, "seed \(seed): \(count) jobs are forgotten")
          continue
        }
        #expect(waiting[flow, default: 0] > 0, "seed \(seed): \(flow) has no job")
        waiting[flow, default: 0] -= 1
        order.ran(flow, byteCount: Int.random(in: 0...300_000, using: &random))
      }
    }
  }
}
