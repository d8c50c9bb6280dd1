internal import PushService
internal import PushStore
internal import PushWire
internal import Testing

@testable internal import PushServer

@Suite("What an app did lately")
struct AppHistoryTests {
  private static let bounds = HistogramBounds.durations(milliseconds: [10, 100, 1_000])
  private static let start = Instant(nanoseconds: 7)

  private static func sample(_ accepted: Int, _ others: Int = 0, pending: Int = 0) -> AppHistory.Sample {
    AppHistory.Sample(accepted: accepted, others: others, pending: pending, durations: [accepted, 0, 0, 0])
  }

  @Test("each look is a slot, and sixty of them are one of the day, whose last one is not over")
  func slots() {
    var history = AppHistory(bounds: Self.bounds)
    #expect(AppHistory.Span.allCases.allSatisfy { history.slots($0).isEmpty })
    for look in 0...300 {
      // Looks are a little late, now and then.
      history.add(Self.sample(look * 10, look), now: Self.start + .seconds(5 * look) + .milliseconds(look % 3 * 100))
    }
    let minutes = history.slots(.minutes)
    #expect(minutes.count == 120)
    #expect(minutes.allSatisfy { $0.accepted == 10 && $0.others == 1 && !$0.stood })
    #expect(minutes.allSatisfy { (1.9...2.1).contains($0.acceptedPerSecond) })
    let day = history.slots(.day)
    #expect(day.map(\.accepted) == [600, 600, 600, 600, 600])
    history.add(Self.sample(3_010, 301), now: Self.start + .seconds(5 * 301))
    #expect(history.slots(.day).map(\.accepted) == [600, 600, 600, 600, 600, 10])
    for look in 302...(60 * 300) { history.add(Self.sample(look * 10), now: Self.start + .seconds(5 * look)) }
    #expect(history.slots(.day).count == 288)
    #expect(history.slots(.minutes).count == 120)
  }

  @Test("nothing got through only where something waited; a time without looks is unknown")
  func standing() {
    var history = AppHistory(bounds: Self.bounds)
    let looks: [(second: Int, sample: AppHistory.Sample)] = [
      (0, Self.sample(0)), (5, Self.sample(0)), (10, Self.sample(0, pending: 9)), (15, Self.sample(9)),
      (40, Self.sample(29)),
    ]
    for look in looks { history.add(look.sample, now: Self.start + .seconds(look.second)) }
    let slots = history.slots(.minutes)
    #expect(slots.map(\.stood) == [false, true, false, false, false, false, false, false])
    #expect(slots.map(\.accepted) == [0, 0, 9, 0, 0, 0, 0, 20])
    #expect(slots.last?.acceptedPerSecond == 0.8)
  }

  @Test("the first times that an app ever had are drawn")
  func firstTimes() {
    var history = AppHistory(bounds: Self.bounds)
    history.add(AppHistory.Sample(), now: Self.start)
    history.add(Self.sample(4), now: Self.start + .seconds(5))
    #expect(history.slots(.minutes).map(\.half) == [0.005])
    #expect(history.slots(.day).map(\.half) == [0.005])
  }

  @Test("an app that began anew has no negative outcomes")
  func anew() {
    var history = AppHistory(bounds: Self.bounds)
    for (look, accepted) in [100, 200, 5, 10].enumerated() {
      history.add(Self.sample(accepted), now: Self.start + .seconds(5 * look))
    }
    #expect(history.slots(.minutes).map(\.accepted) == [100, 0, 5])
  }

  @Test(
    "half and 99 of 100 are read from the buckets",
    arguments: [
      ([0, 0, 0, 0], nil, nil), ([100, 0, 0, 0], 0.005, 0.0099), ([50, 50, 0, 0], 0.01, 0.0982),
      ([0, 0, 0, 7], 1, 1), ([98, 0, 0, 2], 0.0051, 1),
    ] as [([Int], Double?, Double?)])
  func quantiles(counts: [Int], half: Double?, most: Double?) {
    for (share, expected) in [(0.5, half), (0.99, most)] {
      let found = Self.bounds.quantile(share, of: counts)
      #expect((found == nil) == (expected == nil))
      #expect(abs((found ?? 0) - (expected ?? 0)) < 0.000_11, "\(counts): \(share)")
    }
  }

  @Test("a chart has a bar for each slot with something, at the right edge, and says in words what it shows")
  func chart() {
    var history = AppHistory(bounds: Self.bounds)
    for (look, sample) in [
      Self.sample(0), Self.sample(40, 10), Self.sample(40, 10, pending: 3), Self.sample(90, 10),
    ].enumerated() {
      history.add(sample, now: Self.start + .seconds(5 * look))
    }
    let now = StoreInstant(milliseconds: 1_700_000_000_000)
    let text = Chart(history, .minutes, now: now).section(path: "/apps/news").text
    #expect(text.contains("90 accepted, 10 not accepted, at most 10/s; nothing got through for 5 s"))
    // Of 10/s: 8/s accepted, and 2/s above them.
    #expect(text.contains("class=\"accepted\" d=\"M117 1000v-800h1v800zM119 1000v-1000h1v1000z\""), "\(text)")
    #expect(text.contains("class=\"others\" d=\"M117 200v-200h1v200z\""))
    #expect(text.contains("class=\"stood\" d=\"M118 1000v-1000h1v1000z\""))
    #expect(text.contains("<span>22:03</span><span>22:08</span><span>22:13 UTC</span>"))
    // Nothing was measured in between, so the line has a gap.
    #expect(text.contains(/class="half" d="M117 \d+h1M119 \d+h1"/))
    #expect(text.contains("<a href=\"/apps/news?span=minutes\" aria-current=\"true\">10 minutes</a>"))
    let day = Chart(history, .day, now: now).section(path: "/apps/news").text
    #expect(day.contains("class=\"accepted\" d=\"M287 1000v-"))
    #expect(day.contains("<span>22:13</span><span>10:13</span><span>22:13 UTC</span>"))
    #expect(Chart.sparkline(nil).text.isEmpty)
    let unknown = Chart(AppHistory(bounds: Self.bounds), .minutes, now: now).section(path: "/apps/news").text
    #expect(unknown.contains("Nothing is known yet."))
    #expect(Chart.sparkline(history).text.contains("M117 1000v-1000h1v1000zM119 1000"))
  }

  @Test("scales end at 1, 2 or 5 with zeros")
  func scales() {
    #expect([1, 1.1, 2.5, 5, 6, 99, 100.5].map(Chart.roundedUp) == [1, 2, 5, 5, 10, 100, 200])
  }
}
