internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushTransport
internal import PushWire
internal import Testing

@testable internal import PushBench

/// The parts of `carillon bench`, without processes.
struct BenchPartTests {
  // MARK: The open loop

  @Test("notifications are due evenly, and the apps take turns")
  func schedule() {
    let first = OpenLoop(start: 1_000, perSecond: 1_000_000, app: 0, of: 2)
    let second = OpenLoop(start: 1_000, perSecond: 1_000_000, app: 1, of: 2)
    #expect((0..<3).map(first.time) == [1_000, 3_000, 5_000])
    #expect((0..<3).map(second.time) == [2_000, 4_000, 6_000])
    #expect([0, 1_000, 1_001, 3_000, 3_001, 9_999].map { first.count(before: $0) } == [0, 0, 1, 1, 2, 5])
    #expect([1_000, 2_000, 2_001, 4_001].map { second.count(before: $0) } == [0, 0, 1, 2])
  }

  @Test(
    "a late call gets all that became due meanwhile, with their due times",
    arguments: [0.1, 1, 3, 333.3, 1e6, 9_999_999])
  func lateness(perSecond: Double) {
    var seed = SplitMix(state: perSecond.bitPattern)
    var loop = OpenLoop(start: 5_000_000_000, perSecond: perSecond, app: 2, of: 7)
    var now: UInt64 = 4_999_000_000
    var next = 0
    for _ in 0..<2_000 {
      now += UInt64(Double(seed.next() % 4_000) / 1_000 * 7e9 / perSecond)
      let due = loop.take(upTo: 3, now: now, end: .max)
      #expect(due.lowerBound == next)
      #expect(due.count <= 3)
      next = due.upperBound
      for index in due { #expect(loop.time(of: index) <= now) }
      // Everything that is due is taken, as far as there is room.
      if due.count < 3 { #expect(loop.time(of: next) > now) }
    }
    #expect(next > 100)
  }

  @Test("nothing is due at or after the end, however late the call")
  func end() {
    var loop = OpenLoop(start: 0, perSecond: 1_000)
    #expect(loop.take(upTo: 100, now: 50_000_000, end: 10_000_000) == 0..<10)
    #expect(loop.take(upTo: 100, now: 90_000_000, end: 10_000_000).isEmpty)
  }

  @Test("an audience that was never read reports what is overdue, in groups that add up")
  func overdue() {
    let tokens = BenchAudience.tokens(seed: 3)
    let audience = BenchAudience(tokens: tokens, loop: OpenLoop(start: 0, perSecond: 1_000_000_000), limit: .max)
    #expect(audience.overdue.isEmpty, "it has no end yet")
    audience.stop(at: 1_000_003)
    #expect(audience.overdue.map(\.count).reduce(0, +) == 1_000_003)
    #expect(audience.overdue.count <= 8192)
    let limited = BenchAudience(tokens: tokens, loop: OpenLoop(start: 0, perSecond: 1_000), limit: 7)
    limited.stop(at: 1_000_000_000)
    #expect(limited.overdue.map(\.count).reduce(0, +) == 7)
    #expect(limited.overdue.map(\.due) == (0..<7).map { $0 * 1_000_000 })
  }

  @Test("a closed loop hands over as many as there is room for, and ends at its number")
  func closedLoop() throws {
    let tokens = BenchAudience.tokens(seed: 3)
    #expect(tokens == BenchAudience.tokens(seed: 3))
    #expect(tokens != BenchAudience.tokens(seed: 4))
    #expect(
      Set((0..<BenchAudience.tokenCount).map { tokens[$0 * 32..<$0 * 32 + 32] }).count == BenchAudience.tokenCount)
    let audience = BenchAudience(tokens: tokens, loop: nil, limit: 150)
    let chunk = AudienceChunk(entryLimit: 100)
    let before = MonotonicClock.now
    #expect(try audience.fill(chunk) == .entries)
    #expect(chunk.count == 100)
    #expect(chunk[99].line >= before)
    #expect(chunk[99].line <= MonotonicClock.now)
    #expect(try audience.fill(chunk) == .entries)
    #expect(chunk.count == 50)
    #expect(try audience.fill(chunk) == .end)
  }

  @Test("an open loop's audience returns the time of the next call, which is never now")
  func pace() throws {
    let start = MonotonicClock.now + 3_600_000_000_000
    let audience = BenchAudience(tokens: BenchAudience.tokens(seed: 3), loop: OpenLoop(start: start, perSecond: 10))
    #expect(try audience.fill(AudienceChunk()) == .nothingFor(.seconds(1)), "it checks once a second for the end")
    audience.stop(at: start)
    #expect(try audience.fill(AudienceChunk()) == .end)
    let busy = BenchAudience(
      tokens: BenchAudience.tokens(seed: 3), loop: OpenLoop(start: MonotonicClock.now, perSecond: 50_000_000))
    let chunk = AudienceChunk()
    while try busy.fill(chunk) != .entries {}
    #expect((1..<chunk.count).allSatisfy { chunk[$0 - 1].line <= chunk[$0].line }, "each has its own time")
    let soon = BenchAudience(
      tokens: BenchAudience.tokens(seed: 3),
      loop: OpenLoop(start: MonotonicClock.now, perSecond: 1_000_000, app: 100, of: 101))
    guard case .nothingFor(let pause) = try soon.fill(chunk) else { return }
    #expect(pause == BenchAudience.pace, "a timer for each would distort the measurement")
  }

  // MARK: Apple's hosts

  @Test(
    "Apple's names are refused, whatever their spelling",
    arguments: [
      "gateway.push.apple.com", "Gateway.Sandbox.PUSH.apple.COM", "api.push.apple.com.", "apple.com",
      "push.apple.com.cn", "1-courier.push.apple.com",
      "api.sandbox.push.apple-dns.net",
    ])
  func appleNames(host: String) {
    #expect(AppleHosts.refusal(of: host, addresses: { _ in [] })?.contains("is Apple's") == true)
  }

  @Test(
    "Apple's networks are refused",
    arguments: [
      "17.0.0.1", "17.188.143.3", "::ffff:17.1.2.3", "2620:149:a44::1", "2403:300:a42::9", "2a01:b740:a42::1%eth0",
    ])
  func appleAddresses(address: String) {
    #expect(AppleHosts.refusal(of: address, addresses: { _ in [] })?.contains("is in Apple's network") == true)
    #expect(
      AppleHosts.refusal(of: "innocent.example.com", addresses: { _ in ["192.0.2.1", address] })?.contains(
        "leads to \(address)") == true)
  }

  @Test(
    "all other hosts are allowed",
    arguments: [
      "localhost", "127.0.0.1", "::1", "pineapple.com", "apple.com.example.org", "gateway.example.com", "18.17.17.17",
      "170.1.2.3", "::ffff:18.1.2.3",
    ])
  func others(host: String) {
    #expect(AppleHosts.refusal(of: host, addresses: { _ in ["192.0.2.1", "2001:db8::1"] }) == nil)
  }

  @Test("a number in a form that only the resolver accepts is checked in its usual form")
  func shortAddress() {
    #expect(HostAddresses.resolve("17.1") == ["17.0.0.1"])
    #expect(AppleHosts.refusal(of: "0x11000001") != nil)
    #expect(AppleHosts.refusal(of: "localhost") == nil)
  }

  // MARK: Points and results

  @Test("each further value of a variable is one more point, with everything else at the base")
  func sweep() {
    var sweep = BenchSweep()
    #expect(sweep.points == [BenchSettings()])
    #expect(sweep.swept.isEmpty)
    sweep.connections = [2, 4, 8]
    sweep.rates = [nil, 1000]
    let (two, four, eight) = (
      BenchSettings(connections: 2), BenchSettings(connections: 4), BenchSettings(connections: 8)
    )
    #expect(sweep.points == [two, four, eight, BenchSettings(connections: 2, rate: 1000)])
    #expect(sweep.swept == [.connections, .rate])
    #expect(sweep.series(.connections) == [two, four, eight])
  }

  @Test("latency is a variable like the others, and is left out where it is zero")
  func latencySweep() {
    var sweep = BenchSweep()
    #expect(!sweep.variables.contains(.latency))
    sweep.latencies = [.zero, .milliseconds(20), .seconds(1)]
    #expect(
      sweep.points == [BenchSettings(), BenchSettings(latency: .milliseconds(20)), BenchSettings(latency: .seconds(1))])
    #expect(sweep.swept == [.latency])
    #expect(sweep.points.map(BenchVariable.latency.text) == ["0ms", "20ms", "1s"])
    let report = report(sweep)
    let table = BenchTable.text(report).split(separator: "\n").map { $0.split(separator: " ").first }
    #expect(table.contains("latency"))
    #expect(table.contains("20ms"))
    #expect(table.contains("1s"))
    let page = BenchPage.text(report, at: Date(timeIntervalSince1970: 0))
    #expect(page.contains("By round trip to the gateway"))
    #expect(page.contains("latency 20ms"))
    #expect(BenchJSON.text(report).contains(#""latencyMilliseconds":20"#))
  }

  private func report(_ sweep: BenchSweep) -> BenchReport {
    var plan = BenchPlan()
    plan.sweep = sweep
    let points = sweep.points.enumerated().map { index, settings in
      var account = Account()
      account.submitted = 1000
      account.confirmed = 1000
      let scale = UInt64(index + 1)
      let latency = LatencySummary(
        count: 1000, mean: 5e5, values: LatencySummary.percentiles.map { UInt64($0 * 10_000) * scale })
      let counters = BenchCounters(
        written: 1000, batches: 4, batchedBytes: 261_000, batchedNotifications: 1000, tlsRecords: 16)
      return BenchPoint(
        settings: settings, seconds: 0.5, counters: counters, processor: ProcessorTime(user: 0.000_2, system: 0.000_1),
        toSocket: latency,
        toAnswer: index == 0 ? nil : latency, peakMemoryByteCount: 50 << 20, account: account, notificationCount: 1000)
    }
    let machine = BenchMachine(
      processor: "A <processor> & \"more\"", coreCount: 2, memoryByteCount: 8 << 30, kernel: "6.1")
    return BenchReport(plan: plan, machine: machine, points: points, simulatorAccepted: points.count * 1000)
  }

  @Test("the figures of a point follow from what was counted")
  func figures() {
    let point = report(BenchSweep()).points[0]
    #expect(point.perSecond == 2000)
    #expect(abs(point.userMicroseconds - 0.2) < 1e-9)
    #expect(abs(point.systemMicroseconds - 0.1) < 1e-9)
    #expect(point.notificationsPerBatch == 250)
    #expect(point.bytesPerBatch == 65_250)
    #expect(point.bytesPerTLSRecord == 16_312.5)
    #expect(point.toSocket?.at(99) == 990_000)
    #expect(point.toSocket?.at(100) == 1_000_000)
    #expect(Figures.rate(3_512_345) == "3.51 M/s")
    #expect(Figures.rate(950) == "950/s")
    #expect(Figures.time(45_600) == "45.6 µs")
    #expect(Figures.bytes(65_536) == "64.0 KiB")
  }

  @Test("the page is well-formed, names every point, and plots each variable that was swept")
  func page() throws {
    var sweep = BenchSweep()
    sweep.connections = [1, 2, 16]
    sweep.rates = [nil, 1000, 100_000]
    let page = BenchPage.text(report(sweep), at: Date(timeIntervalSince1970: 1_700_000_000))
    let body = try #require(page.firstMatch(of: /(?s)<main>.*<\/main>/)).0
    let parser = XMLParser.wellFormed(String(body))
    #expect(parser == nil, "\(parser ?? "")")
    #expect(page.contains("By connections per app"))
    #expect(page.contains("By requested notifications per second"))
    #expect(!page.contains("By payload size"))
    #expect(page.contains("2023-11-14"))
    #expect(page.contains("A &lt;processor&gt; &amp; &quot;more&quot;"))
    #expect(body.matches(of: /<tbody>|<\/tr><tr>/).count == 5, "one row for each point")
    // Four plots for each variable, and two of percentiles.
    #expect(body.matches(of: /<svg/).count == 10)
  }

  @Test(
    "an axis has a few round numbers and includes every value",
    arguments: [0.003, 0.7, 1, 4.4, 42, 999, 3_512_345, 1e9])
  func axis(highest: Double) {
    let ticks = Plot.linearTicks(to: highest)
    #expect(ticks.first == 0, "\(ticks)")
    #expect((ticks.last ?? 0) >= highest * 0.999_999, "\(ticks)")
    #expect((3...8).contains(ticks.count), "\(ticks)")
    let powers = Plot.powerTicks([highest, highest * 35])
    #expect((powers.first ?? 0) <= highest * 1.000_001, "\(powers)")
    #expect((powers.last ?? 0) >= highest * 34.999, "\(powers)")
    #expect(powers.count <= 4, "\(powers)")
  }
}

/// A small generator for tables of random steps.
private struct SplitMix {
  var state: UInt64
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}

/// A minimal check of nesting, because on Linux Foundation's XML is a separate module.
private enum XMLParser {
  /// What is wrong with `text`; nil if every element that opens also closes, in order.
  static func wellFormed(_ text: String) -> String? {
    var open: [String] = []
    for match in text.matches(of: /<(\/?)([a-z0-9]+)([^<>]*?)(\/?)>/) {
      let name = String(match.2)
      if match.1 == "/" {
        guard open.popLast() == name else { return "</\(name)> closes something else" }
      } else if match.4 != "/", !["meta", "br"].contains(name) {
        open.append(name)
      }
      if match.3.filter({ $0 == "\"" }).count % 2 != 0 { return "an attribute of <\(name)> is not closed" }
    }
    return open.isEmpty ? nil : "<\(open.joined(separator: "><"))> is not closed"
  }
}
