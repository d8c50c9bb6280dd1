internal import PushWire
internal import Support
internal import Testing

@testable internal import Carillon

@Suite("OutageReports")
struct OutageReportsTests {
  private func at(_ seconds: Int) -> Instant { .start + .seconds(seconds) }

  @Test("an outage is logged at its begin, after 1, 5 and 15 minutes, every 15 minutes then, and at its end")
  func times() {
    var reports = OutageReports()
    let logged = (1...3_700).filter { reports.waits(for: .seconds($0), now: at($0)) }
    #expect(logged == [1, 60, 300, 900, 1_800, 2_700, 3_600])
    let ends = [reports.ends(), reports.ends()]
    #expect(ends == [true, false], "an end is logged once")
    let next = reports.waits(for: .seconds(1), now: at(4_000))
    #expect(next, "the next outage")
  }

  @Test("an app that stumbles again and again is logged once a minute")
  func stumbling() {
    var reports = OutageReports()
    var (begins, ends) = (0, 0)
    for second in stride(from: 0, to: 600, by: 2) {
      if reports.waits(for: .seconds(1), now: at(second)) { begins += 1 }
      if reports.ends() { ends += 1 }
    }
    #expect(begins == 10)
    #expect(ends == 10, "each of them has its end")
  }

  @Test(
    "for any outages, the log has at most a line a minute, and an end for each begin",
    arguments: 1...30 as ClosedRange<UInt64>)
  func any(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var reports = OutageReports()
    var (now, lines, ends, isOpen) = (0, 0, 0, false)
    for _ in 0..<200 {
      let length = Int.random(in: 1...2_000, using: &random)
      for second in 1...length where reports.waits(for: .seconds(second), now: at(now + second)) {
        lines += 1
        isOpen = true
      }
      now += length + Int.random(in: 0...90, using: &random)
      let isLogged = reports.ends()
      #expect(isLogged == isOpen, "seed \(seed)")
      isOpen = false
      if isLogged { ends += 1 }
    }
    #expect(lines >= ends, "seed \(seed): \(lines) in \(now) s")
    #expect(lines <= now / 60 + ends, "seed \(seed): \(lines) in \(now) s")
  }
}
