internal import Foundation
package import PushStore

/// Instants as RFC 3339 has them.
package enum InstantText {
  /// The instant in UTC.
  package static func text(_ instant: StoreInstant) -> String {
    // The fraction apart: as part of a Double it can come out one less.
    let (seconds, rest) = instant.milliseconds.quotientAndRemainder(dividingBy: 1000)
    let (whole, fraction) = rest < 0 ? (seconds - 1, rest + 1000) : (seconds, rest)
    let text = Date(timeIntervalSince1970: Double(whole)).formatted(Date.ISO8601FormatStyle())
    let digits = String(fraction)
    return "\(text.dropLast()).\(String(repeating: "0", count: 3 - digits.count))\(digits)Z"
  }

  /// Nil unless it is a date and a time with an offset.
  package static func instant(_ text: String) -> StoreInstant? {
    let pattern =
      #/
      (\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+\-](?:[01]\d|2[0-3]):[0-5]\d)
      /#
    guard let match = text.wholeMatch(of: pattern),
      let local = LocalClock.seconds(date: match.1, time: match.2)
    else { return nil }
    let fraction = match.3.map { $0.prefix(3) } ?? ""
    let milliseconds = Int64(fraction + String(repeating: "0", count: 3 - fraction.count)) ?? 0
    var offset: Int64 = 0
    if match.4.lowercased() != "z" {
      let parts = match.4.dropFirst().split(separator: ":").compactMap { Int64($0) }
      guard parts.count == 2 else { return nil }
      offset = (parts[0] * 60 + parts[1]) * 60 * (match.4.hasPrefix("-") ? -1 : 1)
    }
    return StoreInstant(milliseconds: (local - offset) * 1000 + milliseconds)
  }
}
