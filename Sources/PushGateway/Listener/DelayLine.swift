internal import NIOCore
internal import PushWire

/// One direction of a distant connection: what goes in comes out in the same order, a fixed time later.
///
/// It delays and does not throttle: any amount may be under way. Whoever fills it reads ``byteCount`` and stops in time.
struct DelayLine<Element> {
  /// Due times are rounded up to a multiple of this, so that what arrives within it leaves together: at most 8,000 timers a second for a connection.
  static var grid: UInt64 { 125_000 }

  private struct Entry {
    let due: Instant
    let byteCount: Int
    let element: Element
  }

  private let delay: Duration
  /// What goes in earlier counts as gone in at this time.
  private let opening: Instant
  private var entries = CircularBuffer<Entry>()
  /// All that is under way.
  private(set) var byteCount = 0

  init(delay: Duration, opening: Instant = .start) {
    self.delay = delay
    self.opening = opening
  }

  /// When the first element comes out; nil when there is none.
  var nextDue: Instant? { entries.first?.due }

  mutating func append(_ element: Element, byteCount: Int = 0, now: Instant) {
    let due = max(now, opening) + delay
    let steps = due.nanoseconds / Self.grid + (due.nanoseconds % Self.grid == 0 ? 0 : 1)
    entries.append(Entry(due: Instant(nanoseconds: steps * Self.grid), byteCount: byteCount, element: element))
    self.byteCount += byteCount
  }

  /// Takes the first element out if its time has come.
  mutating func next(now: Instant) -> Element? {
    guard let first = entries.first, first.due <= now else { return nil }
    return removeFirst()
  }

  /// Takes the first element out, whatever the time.
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
