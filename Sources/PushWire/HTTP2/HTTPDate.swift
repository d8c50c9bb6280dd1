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
  package static func parse(_ text: UnsafeRawBufferPointer) -> Int64? {
    guard text.count == byteCount, unsafe matches(text, 3, ", "), unsafe matches(text, 25, " GMT"),
      unsafe matches(text, 19, ":"),
      unsafe matches(text, 22, ":"), unsafe matches(text, 7, " "), unsafe matches(text, 11, " "),
      unsafe matches(text, 16, " ")
    else { return nil }
    var month = 0
    while month < 12, unsafe !matches(text, 8, months[month]) { month += 1 }
    guard month < 12, let day = unsafe number(text, 5, 2), let year = unsafe number(text, 12, 4),
      let hour = unsafe number(text, 17, 2),
      let minute = unsafe number(text, 20, 2), let second = unsafe number(text, 23, 2)
    else { return nil }
    // Second 60 is a leap second.
    guard (1...31).contains(day), year >= 1970, hour < 24, minute < 60, second <= 60 else { return nil }
    return daysSince1970(year: year, month: Int64(month) + 1, day: day) * 86_400 + hour * 3600 + minute * 60 + second
  }

  /// Writes the 29 bytes to the beginning of `destination`.
  package static func write(_ unixSeconds: Int64, into destination: UnsafeMutableRawBufferPointer) {
    precondition(destination.count >= byteCount, "a date has 29 characters")
    let seconds = max(0, min(unixSeconds, 253_402_300_799))
    let day = seconds / 86_400
    let (year, month, date) = civil(day)
    unsafe put(days[Int(day % 7)], destination, 0)
    unsafe put(", ", destination, 3)
    unsafe put(date, 2, destination, 5)
    unsafe put(" ", destination, 7)
    unsafe put(months[Int(month) - 1], destination, 8)
    unsafe put(" ", destination, 11)
    unsafe put(year, 4, destination, 12)
    unsafe put(" ", destination, 16)
    unsafe put(seconds % 86_400 / 3600, 2, destination, 17)
    unsafe put(":", destination, 19)
    unsafe put(seconds % 3600 / 60, 2, destination, 20)
    unsafe put(":", destination, 22)
    unsafe put(seconds % 60, 2, destination, 23)
    unsafe put(" GMT", destination, 25)
  }

  package static func text(_ unixSeconds: Int64) -> String {
    unsafe String(unsafeUninitializedCapacity: byteCount) {
      unsafe write(unixSeconds, into: UnsafeMutableRawBufferPointer($0))
      return byteCount
    }
  }

  private static func matches(_ text: UnsafeRawBufferPointer, _ offset: Int, _ wanted: StaticString) -> Bool {
    for index in 0..<wanted.utf8CodeUnitCount where unsafe text[offset + index] != wanted.utf8Start[index] {
      return false
    }
    return true
  }

  private static func number(_ text: UnsafeRawBufferPointer, _ offset: Int, _ count: Int) -> Int64? {
    var value: Int64 = 0
    for index in offset..<offset + count {
      let digit = unsafe text[index] &- 0x30
      guard digit < 10 else { return nil }
      value = value * 10 + Int64(digit)
    }
    return value
  }

  private static func put(_ text: StaticString, _ destination: UnsafeMutableRawBufferPointer, _ offset: Int) {
    for index in 0..<text.utf8CodeUnitCount { unsafe destination[offset + index] = text.utf8Start[index] }
  }

  private static func put(_ value: Int64, _ width: Int, _ destination: UnsafeMutableRawBufferPointer, _ offset: Int) {
    var rest = value
    for index in stride(from: offset + width - 1, through: offset, by: -1) {
      unsafe destination[index] = 0x30 + UInt8(rest % 10)
      rest /= 10
    }
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
