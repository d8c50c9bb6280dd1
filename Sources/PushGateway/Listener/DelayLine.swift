internal import NIOCore
internal import PushWire

/// One direction of a connection with latency: elements come out in the order in which they went
/// in, a fixed time later.
///
/// It delays and does not throttle. Any amount may be in flight; callers check ``byteCount`` and
/// stop in time.
struct DelayLine<Element> {
  /// Due times are rounded up to a multiple of this, in nanoseconds, so that elements close
  /// together leave together: at most 8,000 timers a second for each connection.
  static var grid: UInt64 { 125_000 }

  private struct Entry {
    let due: Instant
    let byteCount: Int
    let element: Element
  }

  private let delay: Duration
  /// Elements that go in earlier count as gone in at this time.
  private let opening: Instant
  private var entries = CircularBuffer<Entry>()
  /// The bytes in flight.
  private(set) var byteCount = 0

  init(delay: Duration, opening: Instant = .start) { (self.delay, self.opening) = (delay, opening) }

  /// When the first element comes out; nil when there is none.
  var nextDue: Instant? { entries.first?.due }

  mutating func append(_ element: Element, byteCount: Int = 0, now: Instant) {
    let due = max(now, opening) + delay
    let steps = due.nanoseconds / Self.grid + (due.nanoseconds % Self.grid == 0 ? 0 : 1)
    entries.append(Entry(due: Instant(nanoseconds: steps * Self.grid), byteCount: byteCount, element: element))
    self.byteCount += byteCount
  }

  /// Removes and returns the first element if it is due.
  mutating func next(now: Instant) -> Element? {
    guard let first = entries.first, first.due <= now else { return nil }
    return removeFirst()
  }

  /// Removes and returns the first element, due or not.
  mutating func removeFirst() -> Element? {
    guard let entry = entries.popFirst() else { return nil }
    byteCount -= entry.byteCount
    return entry.element
  }

  mutating func removeAll() {
    entries.removeAll()
    byteCount = 0
  }
}
