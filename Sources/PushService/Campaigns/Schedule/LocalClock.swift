/// Dates and times on a wall clock, as seconds since 1970 of a clock that shows UTC.
package enum LocalClock {
  /// - Parameters:
  ///   - date: `YYYY-MM-DD`.
  ///   - time: `HH:MM` or `HH:MM:SS`.
  /// - Returns: nil if there is no such day or time.
  static func seconds(date: some StringProtocol, time: some StringProtocol) -> Int64? {
    let days = date.split(separator: "-", omittingEmptySubsequences: false).map { Int64($0) }
    guard days.count == 3, let year = days[0], let month = days[1], let day = days[2], (1...9999).contains(year),
      (1...12).contains(month), (1...dayCount(year, month)).contains(day), let second = secondOfDay(time)
    else { return nil }
    return dayNumber(year, month, day) * 86_400 + second
  }

  /// `HH:MM` or `HH:MM:SS`, without leap seconds.
  static func secondOfDay(_ time: some StringProtocol) -> Int64? {
    let parts = time.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 2 || parts.count == 3, parts.allSatisfy({ $0.utf8.count == 2 }) else { return nil }
    let numbers = parts.compactMap { Int64($0) }
    guard numbers.count == parts.count, (0...23).contains(numbers[0]),
      numbers.dropFirst().allSatisfy({ (0...59).contains($0) })
    else { return nil }
    return numbers[0] * 3600 + numbers[1] * 60 + (numbers.count == 3 ? numbers[2] : 0)
  }

  private static func dayCount(_ year: Int64, _ month: Int64) -> Int64 {
    switch month {
    case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
    case 4, 6, 9, 11: 30
    default: 31
    }
  }

  /// Days since 1970-01-01. Years begin in March here, so that the leap day is the last one.
  private static func dayNumber(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
    let shifted = month <= 2 ? year - 1 : year
    let era = shifted / 400
    let yearOfEra = shifted - era * 400
    let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
    let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
    return era * 146_097 + dayOfEra - 719_468
  }
}
