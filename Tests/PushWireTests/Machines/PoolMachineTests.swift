internal import PushWire
internal import Testing

@Suite("PoolMachine")
struct PoolMachineTests {
  private func at(_ seconds: Int) -> Instant { Instant(nanoseconds: 0) + .seconds(seconds) }

  private func pool(lanes: ClosedRange<Int> = 1...4, perMinute: Double = 60, attempts: Int = 3) -> PoolMachine {
    PoolMachine(limits: .init(lanes: lanes, connectionsPerMinute: perMinute, dialAttempts: attempts), now: at(0))
  }

  @Test("new connections: a burst, then the rate per minute, and the announced time is exact")
  func rate() {
    var machine = pool(lanes: 1...2, perMinute: 12)
    // A quarter of a minute's connections at once, then one every five seconds.
    for _ in 0..<3 { #expect(machine.mayDial(now: at(0)) == .now) }
    guard case .later(let next) = machine.mayDial(now: at(0)) else {
      Issue.record("a fourth connection at once")
      return
    }
    #expect(next >= at(5))
    #expect(next <= at(5) + .milliseconds(1))
    #expect(machine.mayDial(now: next) == .now)
    var dials = 0
    for second in 10..<70 {
      while machine.mayDial(now: at(second)) == .now { dials += 1 }
    }
    #expect((11...13).contains(dials), "\(dials) in a minute")
  }

  @Test("fewer lanes are allowed while others have some, and as many as before when they have none")
  func limited() {
    var machine = pool(lanes: 2...8)
    #expect(machine.limit(lanes: 4) == .none)
    for lane in 0..<2 { machine.opened(isFirst: true, now: at(lane)) }
    _ = machine.starved(mayGrow: true, usefulLaneCount: 8, now: at(2))
    #expect(machine.laneCount == 4)
    #expect(machine.limit(lanes: 1) == .takeBack(3))
    #expect(machine.starved(mayGrow: true, usefulLaneCount: 8, now: at(3)) == .none)
    #expect(machine.mayAddSpare() == false)
    #expect(machine.limit(lanes: 1) == .none)
    #expect(machine.limit(lanes: 100) == .add(1))
    #expect(machine.laneCount == 2)
    for lane in 4..<6 { machine.opened(isFirst: true, now: at(lane)) }
    #expect(machine.starved(mayGrow: true, usefulLaneCount: 8, now: at(7)) == .add(6))
  }

  @Test("every lane may connect at once, however slow the rate")
  func burst() {
    var machine = pool(lanes: 1...8, perMinute: 1)
    #expect((0..<8).allSatisfy { _ in machine.mayDial(now: at(0)) == .now })
    #expect(machine.mayDial(now: at(0)) != .now)
  }

  @Test("a gateway that was never reached is given up after the attempts, with the last reason")
  func unreachable() {
    var machine = pool(attempts: 3)
    #expect(machine.ended(.unreachable("first")) == nil)
    #expect(machine.ended(.unreachable("second")) == nil)
    #expect(machine.ended(.unreachable("third")) == "third")
  }

  @Test("a gateway that was reached once is not given up by a number of failures, only by patience")
  func reachedBefore() {
    var machine = pool(attempts: 3)
    machine.opened(isFirst: true, now: at(0))
    for _ in 0..<50 {
      #expect(machine.ended(.unreachable("gone")) == nil)
      #expect(machine.ended(.fruitless) == nil)
    }
  }

  @Test("a refused certificate ends the app at once, with its sentence")
  func atOnce() {
    var machine = pool()
    let reason = machine.ended(.refused("the server refused our certificate: unknown CA"))
    #expect(
      reason
        == "the server refused our certificate: unknown CA; renew the certificate, or check its topic and environment")
  }

  /// When a waiting reader adds lanes, if its shortage is checked every 20 ms; nil: no lane was
  /// added.
  private func addition(
    _ machine: inout PoolMachine, from start: Instant, for duration: Duration, mayGrow: Bool = true
  ) -> (count: Int, at: Instant)? {
    var now = start
    while now < start + duration {
      if case .add(let count) = machine.starved(mayGrow: mayGrow, now: now) { return (count, now) }
      now = now + .milliseconds(20)
    }
    return nil
  }

  private func opened(_ machine: inout PoolMachine, _ count: Int, now: Instant) {
    for _ in 0..<count { machine.opened(isFirst: true, now: now) }
  }

  @Test("a shortage that lasts doubles the lanes up to the limit, each time after the new ones have connected")
  func growth() {
    var machine = pool(lanes: 1...6)
    // The first connection is not open yet, and further ones would not open earlier.
    #expect(addition(&machine, from: at(0), for: .seconds(5)) == nil)
    opened(&machine, 1, now: at(5))
    let first = addition(&machine, from: at(5), for: .seconds(1))
    #expect(first?.count == 1)
    #expect(first.map { $0.at <= at(5) + .milliseconds(120) } == true)
    #expect(addition(&machine, from: at(6), for: .seconds(1)) == nil, "the second lane has no connection yet")
    opened(&machine, 1, now: at(7))
    #expect(addition(&machine, from: at(7), for: .seconds(2))?.count == 2)
    opened(&machine, 2, now: at(9))
    #expect(addition(&machine, from: at(9), for: .seconds(2))?.count == 2)
    #expect(machine.laneCount == 6)
    opened(&machine, 2, now: at(11))
    #expect(addition(&machine, from: at(11), for: .seconds(10)) == nil)
  }

  @Test("a lane with too much to resend adds lanes at once, but not before the last new lanes have connected")
  func surplus() {
    var machine = pool(lanes: 1...6)
    #expect(machine.starved(mayGrow: true, usefulLaneCount: 1, now: at(0)) != .add(1), "there is no connection yet")
    opened(&machine, 1, now: at(1))
    #expect(machine.starved(mayGrow: false, usefulLaneCount: 1, now: at(1)) != .add(1))
    #expect(machine.starved(mayGrow: true, usefulLaneCount: 1, now: at(1)) == .add(1))
    #expect(machine.starved(mayGrow: true, usefulLaneCount: 1, now: at(1)) != .add(2))
    opened(&machine, 1, now: at(2))
    #expect(machine.starved(mayGrow: true, usefulLaneCount: 1, now: at(2)) == .add(2))

    var far = pool(lanes: 1...6)
    opened(&far, 1, now: at(1))
    #expect(
      far.starved(mayGrow: true, usefulLaneCount: 5, now: at(1)) == .add(4),
      "no doubling where it is known how many are needed")
    #expect(far.laneCount == 5)
    opened(&far, 4, now: at(2))
    #expect(far.starved(mayGrow: true, usefulLaneCount: 50, now: at(2)) == .add(1))
  }

  @Test("a short shortage is no reason for another lane, nor is an old one")
  func shortShortage() {
    var machine = pool(lanes: 1...4)
    opened(&machine, 1, now: at(0))
    for second in 1..<20 { #expect(addition(&machine, from: at(second), for: .milliseconds(60)) == nil) }
    #expect(machine.laneCount == 1)
  }

  @Test("a service that asks for less gets no more connections")
  func heldBack() {
    var machine = pool(lanes: 1...4)
    opened(&machine, 1, now: at(0))
    #expect(addition(&machine, from: at(1), for: .seconds(5), mayGrow: false) == nil)
    #expect(addition(&machine, from: at(6), for: .seconds(1))?.count == 1)
  }
}
