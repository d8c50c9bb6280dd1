package import PushWire

/// Counts the most that came within any second. Times must not go back.
package struct BusiestSecond {
  private var times: [(at: Instant, count: Int)] = []
  private var first = 0
  private var lastSecond = 0
  package private(set) var total = 0
  /// The most in one second.
  package private(set) var most = 0

  package init() {}

  package mutating func add(_ count: Int, at now: Instant) {
    times.append((now, count))
    total += count
    lastSecond += count
    while now.since(times[first].at) >= .seconds(1) {
      lastSecond -= times[first].count
      first += 1
    }
    most = max(most, lastSecond)
  }
}
