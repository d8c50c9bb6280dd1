/// The times at which the notifications of an open loop are due: at equal intervals, independent of
/// the progress of earlier ones.
///
/// An overloaded or stalled sender therefore cannot hide its own delays (coordinated omission). A
/// notification that could not be handed over in time keeps its due time, and its latency counts
/// from there. Times are nanoseconds of the monotonic clock.
struct OpenLoop {
  private let start: UInt64
  private let nanosecondsApart: Double
  private let offset: Double
  /// The number of this app's notifications taken so far.
  private(set) var taken = 0

  /// - Parameters:
  ///   - perSecond: The rate of all apps together.
  ///   - app: 0 ..< apps. The apps take turns.
  init(start: UInt64, perSecond: Double, app: Int = 0, of apps: Int = 1) {
    self.start = start
    nanosecondsApart = 1e9 * Double(apps) / perSecond
    offset = 1e9 * Double(app) / perSecond
  }

  /// When the notification with this index, from 0, is due.
  func time(of index: Int) -> UInt64 { start + UInt64(offset + Double(index) * nanosecondsApart) }

  /// The number of notifications that are due before `time`.
  func count(before time: UInt64) -> Int {
    guard time > start else { return 0 }
    var count = max(0, Int((Double(time - start) - offset) / nanosecondsApart))
    // Rounding may be off by one in either direction.
    while count > 0, self.time(of: count - 1) >= time { count -= 1 }
    while self.time(of: count) < time { count += 1 }
    return count
  }

  /// Takes up to `limit` notifications that are due at `now`, oldest first, and returns their
  /// indices. None is due at or after `end`.
  mutating func take(upTo limit: Int, now: UInt64, end: UInt64) -> Range<Int> {
    let due = count(before: min(now < .max ? now + 1 : now, end))
    let first = taken
    taken = min(max(due, first), first + limit)
    return first..<taken
  }
}
