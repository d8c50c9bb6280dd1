/// When a time zone's clocks show what. The rules are a function: no clock, and no system.
package struct ZoneRules: Sendable {
  /// Seconds east of UTC at an instant, in seconds since 1970.
  let offset: @Sendable (_ instant: Int64) -> Int64

  /// No offset in the world is, or was, larger.
  private static let offsetLimit: Int64 = 16 * 3600

  /// What the wall clock shows at an instant.
  func local(at instant: Int64) -> Int64 { instant + offset(instant) }

  /// The first instant at which the wall clock shows this time or a later one.
  ///
  /// So a time that clocks skip is the moment of the skip, and a time that they show twice is the
  /// first of both.
  func firstInstant(showing local: Int64) -> Int64 {
    let end = local + Self.offsetLimit
    var start = local - Self.offsetLimit
    while start < end {
      // The next change is looked for by the hour: changes lie further apart.
      let next = min(end, start + 3600)
      let (before, after) = (offset(start), offset(next))
      let change = before == after ? next : firstChange(from: start, to: next, before)
      // Within this stretch clocks run evenly.
      let instant = max(start, local - before)
      if instant < change { return instant }
      if change < next, change + after >= local { return change }
      start = before == after ? next : change
    }
    return end
  }

  func changes(after start: Int64, through end: Int64) -> [Int64] {
    var changes: [Int64] = []
    for hour in stride(from: start, to: end, by: 3600) {
      let next = min(end, hour + 3600)
      let before = offset(hour)
      if offset(next) != before { changes.append(firstChange(from: hour, to: next, before)) }
    }
    return changes
  }

  /// The first instant with another offset, between two with different ones.
  private func firstChange(from start: Int64, to end: Int64, _ before: Int64) -> Int64 {
    var (low, high) = (start, end)
    while high - low > 1 {
      let middle = low + (high - low) / 2
      if offset(middle) == before { low = middle } else { high = middle }
    }
    return high
  }
}
