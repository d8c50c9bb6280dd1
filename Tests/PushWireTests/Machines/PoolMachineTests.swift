internal import PushWire
internal import Testing

@Suite("PoolMachine")
struct PoolMachineTests {
  private func at(_ seconds: Int) -> Instant { Instant(nanoseconds: 0) + .seconds(seconds) }

  private func pool(lanes: ClosedRange<Int> = 1...4, perMinute: Double = 60, attempts: Int = 3) -> PoolMachine {
    PoolMachine(limits: .init(lanes: lanes, connectionsPerMinute: perMinute, dialAttempts: attempts), now: at(0))
  }

  @Test("new connections: a burst, then so many per minute, and the moment to come back is the right one")
  func rate() {
    var machine = pool(lanes: 1...2, perMinute: 12)
    // A quarter of a minute's connections at once, then one every five seconds.
    for _ in 0..<3 { #expect(machine.mayDial(now: at(0)) == .now) }
    guard case .later(let next) = machine.mayDial(now: at(0)) else {
      Issue.record("a fourth connection at once")
      return
    }
    #expect(next >= at(5) && next <= at(5) + .milliseconds(1))
    #expect(machine.mayDial(now: next) == .now)
    var dials = 0
    for second in 10..<70 {
      while machine.mayDial(now: at(second)) == .now { dials += 1 }
    }
    #expect((11...13).contains(dials), "\(dials) in a minute")
  }

  @Test("every lane may connect at once, however slow the rate")
  func burst() {
    var machine = pool(lanes: 1...8, perMinute: 1)
    #expect((0..<8).allSatisfy { _ in machine.mayDial(now: at(0)) == .now })
    #expect(machine.mayDial(now: at(0)) != .now)
  }

  @Test("a gateway that was never reached is given up after so many attempts, with the last reason")
  func unreachable() {
    var machine = pool(attempts: 3)
    #expect(machine.ended(.unreachable("first")) == nil)
    #expect(machine.ended(.unreachable("second")) == nil)
    #expect(machine.ended(.unreachable("third")) == "third")
  }

  @Test("once it was reached, no number of endings gives it up: that is a matter of patience")
  func reachedBefore() {
    var machine = pool(attempts: 3)
    machine.opened()
    for _ in 0..<50 {
      #expect(machine.ended(.unreachable("gone")) == nil)
      #expect(machine.ended(.fruitless) == nil)
    }
  }

  @Test("a refused certificate ends the app at once, with its sentence")
  func atOnce() {
    var machine = pool()
    #expect(machine.ended(.refused("unknown CA")) == "the gateway refused the certificate: unknown CA")
  }

  @Test("shortage adds lanes, one at a time, up to the limit")
  func starved() {
    var machine = pool(lanes: 2...4)
    #expect(machine.laneCount == 2)
    // A short burst fills the lanes, and that alone is no reason for another connection.
    var now = Instant(nanoseconds: 1_000_000_000)
    func starvesFor(_ duration: Duration) -> Bool {
      let end = now + duration
      while now < end {
        now = now + .milliseconds(100)
        if machine.starved(now: now) { return true }
      }
      return false
    }
    #expect(!starvesFor(.milliseconds(900)) && machine.laneCount == 2)
    #expect(starvesFor(.milliseconds(300)) && machine.laneCount == 3)
    now = now + .seconds(60)
    #expect(!starvesFor(.milliseconds(900)) && machine.laneCount == 3, "an old shortage does not count")
    #expect(starvesFor(.milliseconds(300)) && machine.laneCount == 4)
    #expect(!starvesFor(.seconds(10)) && machine.laneCount == 4)
  }
}
