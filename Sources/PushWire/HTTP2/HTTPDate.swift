/// Dates in HTTP's format (RFC 9110, 5.6.7), `Sun, 06 Nov 1994 08:49:37 GMT`, as seconds since
/// 1970.
package enum HTTPDate {
  package static let byteCount = 29

  private static let days: [StaticString] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
  private static let months: [StaticString] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  /// Reads the one form that senders must use today; nil for any other. The day's name is not
  /// checked. Allocates nothing.
  package static func parse(_ text: Span<UInt8>) -> Int64? {
    guard text.count == byteCount, matches(text, 3, ", "), matches(text, 25, " GMT"), matches(text, 19, ":"),
      matches(text, 22, ":"), matches(text, 7, " "), matches(text, 11, " "), matches(text, 16, " ")
    else { return nil }
    var month = 0
    while month < 12, !matches(text, 8, months[month]) { month += 1 }
    guard month < 12, let day = number(text, 5, 2), let year = number(text, 12, 4), let hour = number(text, 17, 2),
      let minute = number(text, 20, 2), let second = number(text, 23, 2)
    else { return nil }
    // Second 60 is a leap second.
    guard (1...31).contains(day), year >= 1970, hour < 24, minute < 60, second <= 60 else { return nil }
    return daysSince1970(year: year, month: Int64(month) + 1, day: day) * 86_400 + hour * 3600 + minute * 60 + second
  }

  package static func text(_ unixSeconds: Int64) -> String {
    let seconds = max(0, min(unixSeconds, 253_402_300_799))
    let day = seconds / 86_400
    let (year, month, date) = civil(day)
    var bytes: [UInt8] = []
    bytes.reserveCapacity(byteCount)
    func put(_ text: StaticString) { text.withUTF8Buffer { unsafe bytes.append(contentsOf: $0) } }
    func put(_ value: Int64, _ width: Int) {
      let start = bytes.count
      var rest = value
      for _ in 0..<width {
        bytes.insert(0x30 + UInt8(rest % 10), at: start)
        rest /= 10
      }
    }
    put(days[Int(day % 7)])
    put(", ")
    put(date, 2)
    put(" ")
    put(months[Int(month) - 1])
    put(" ")
    put(year, 4)
    put(" ")
    put(seconds % 86_400 / 3600, 2)
    put(":")
    put(seconds % 3600 / 60, 2)
    put(":")
    put(seconds % 60, 2)
    put(" GMT")
    return String(decoding: bytes, as: UTF8.self)
  }

  private static func matches(_ text: Span<UInt8>, _ offset: Int, _ wanted: StaticString) -> Bool {
    for index in 0..<wanted.utf8CodeUnitCount where unsafe text[offset + index] != wanted.utf8Start[index] {
      return false
    }
    return true
  }

  private static func number(_ text: Span<UInt8>, _ offset: Int, _ count: Int) -> Int64? {
    var value: Int64 = 0
    for index in offset..<offset + count {
      let digit = text[index] &- 0x30
      guard digit < 10 else { return nil }
      value = value * 10 + Int64(digit)
    }
    return value
  }

  /// The Gregorian calendar with years that begin in March, so that the leap day is the last day.
  private static func daysSince1970(year: Int64, month: Int64, day: Int64) -> Int64 {
    let shifted = month <= 2 ? year - 1 : year
    let era = shifted / 400
    let yearOfEra = shifted - era * 400
    let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
  }

  private static func civil(_ day: Int64) -> (year: Int64, month: Int64, day: Int64) {
    let shifted = day + 719_468
    let era = shifted / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let marchMonth = (5 * dayOfYear + 2) / 153
    let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
    return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * marchMonth + 2) / 5 + 1)
  }
}
