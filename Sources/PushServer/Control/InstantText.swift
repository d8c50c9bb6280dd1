internal import Foundation
internal import PushStore

/// Instants as RFC 3339 has them, in UTC.
enum InstantText {
  static func text(_ instant: StoreInstant) -> String {
    Date(timeIntervalSince1970: Double(instant.milliseconds) / 1000).formatted(
      Date.ISO8601FormatStyle(includingFractionalSeconds: true))
  }

  /// - Parameter text: with its offset from UTC.
  static func instant(_ text: String) -> StoreInstant? {
    guard
      let match = text.wholeMatch(
        of:
          #/
          (\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))
          /#)
    else { return nil }
    func number(_ text: Substring?) -> Int { text.flatMap { Int($0) } ?? 0 }
    let (month, hour, minute, second) = (number(match.2), number(match.4), number(match.5), number(match.6))
    let (offsetHour, offsetMinute) = (number(match.9), number(match.10))
    guard hour < 24, minute < 60, second < 60, offsetHour < 24, offsetMinute < 60,
      let days = days(number(match.1), month, number(match.3))
    else { return nil }
    let offset = (offsetHour * 60 + offsetMinute) * (match.8 == "-" ? -60 : 60)
    let fraction = match.7.map { ($0 + "00").prefix(3) }
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset
    return StoreInstant(milliseconds: Int64(seconds) * 1000 + Int64(number(fraction)))
  }

  /// From 1 January 1970 to a date of the Gregorian calendar; nil if there is no such date.
  private static func days(_ year: Int, _ month: Int, _ day: Int) -> Int? {
    let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    guard (1...12).contains(month) else { return nil }
    let lengths = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    guard (1...lengths[month - 1]).contains(day) else { return nil }
    let before = year - 1
    let years = before * 365 + before / 4 - before / 100 + before / 400 - 719_162
    return years + lengths[..<(month - 1)].reduce(0, +) + day - 1
  }
}
