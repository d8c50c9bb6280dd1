/// Hours of the day in which nothing is to be sent, such as 22:00 to 08:00.
package struct QuietHours: Hashable, Sendable, CustomStringConvertible {
  /// Seconds of the day: the first one that is quiet, and the first one that is not.
  package let from: Int64
  package let to: Int64

  package init?(from: Int64, to: Int64) {
    guard from != to, (0..<86_400).contains(from), (0..<86_400).contains(to) else { return nil }
    (self.from, self.to) = (from, to)
  }

  /// Such as `22:00-08:00`.
  package init?(_ text: String) {
    let parts = text.split(separator: "-", omittingEmptySubsequences: false)
      .map { $0.trimmingPrefix { $0 == " " } }
      .map { LocalClock.secondOfDay(String($0.reversed().drop { $0 == " " }.reversed())) }
    guard parts.count == 2, let from = parts[0], let to = parts[1] else { return nil }
    self.init(from: from, to: to)
  }

  package var description: String { "\(Self.text(from))-\(Self.text(to))" }

  private static func text(_ second: Int64) -> String {
    func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
    return "\(two(second / 3600)):\(two(second / 60 % 60))"
  }

  package func contains(local: Int64) -> Bool {
    let second = ((local % 86_400) + 86_400) % 86_400
    return from < to ? (from..<to).contains(second) : second >= from || second < to
  }

  /// The first instant, not before this one, that is not quiet.
  package func end(notBefore instant: Int64, _ zone: ZoneRules) -> Int64 {
    var instant = instant
    // Clocks that are set back can show the quiet time again just after it has ended.
    for _ in 0..<4 {
      let local = zone.local(at: instant)
      guard contains(local: local) else { return instant }
      let second = ((local % 86_400) + 86_400) % 86_400
      let midnight = local - second
      let next = max(instant + 1, zone.firstInstant(showing: second < to ? midnight + to : midnight + 86_400 + to))
      instant = next
    }
    return instant
  }

  /// When it is quiet next, after an instant that is not quiet, or when the next day's quiet hours
  /// begin.
  package func nextBeginning(after instant: Int64, _ zone: ZoneRules) -> Int64 {
    let local = zone.local(at: instant)
    let midnight = local - ((local % 86_400) + 86_400) % 86_400
    let today = zone.firstInstant(showing: midnight + from)
    let next: Int64
    if today > instant {
      next = today
    } else if local < midnight + from {
      // Clocks were set back, and show the beginning once more.
      next = instant + midnight + from - local
    } else {
      next = zone.firstInstant(showing: midnight + 86_400 + from)
    }
    // Clocks that are set can show a quiet time other than its first second.
    return zone.changes(after: instant, through: next).first { contains(local: zone.local(at: $0)) } ?? next
  }
}

/// What a campaign says about quiet hours.
package enum QuietHoursChoice: Hashable, Sendable {
  case off
  case hours(QuietHours)

  package init?(_ text: String) {
    if text == "off" {
      self = .off
    } else if let hours = QuietHours(text) {
      self = .hours(hours)
    } else {
      return nil
    }
  }
}
