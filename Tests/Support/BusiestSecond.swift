package import PushWire

/// Counts the most that came within any second. Times must not go back.
package struct BusiestSecond {
  private var times: [(at: Instant, count: Int)] = []
  private var first = 0
  private var lastSecond = 0
  package private(set) var total = 0
  /// The most in one second.
  package private(set) var most = 0

  private let span: Duration

  /// - Parameter span: what is a second here.
  package init(of span: Duration = .seconds(1)) { self.span = span }

  package mutating func add(_ count: Int, at now: Instant) {
    times.append((now, count))
    total += count
    lastSecond += count
    while now.since(times[first].at) >= span {
      lastSecond -= times[first].count
      first += 1
    }
    most = max(most, lastSecond)
  }
}
