internal import COpenSSL

/// Dates of certificates, in seconds since 1970 and as text.
package enum CivilTime {
  /// For example `2026-11-21 03:30:00 UTC`.
  package static func describe(_ unixSeconds: Int64) -> String {
    let day = unixSeconds >= 0 ? unixSeconds / 86_400 : -((-unixSeconds + 86_399) / 86_400)
    let second = unixSeconds - day * 86_400
    let (year, month, date) = civil(day: day)
    return "\(padded(year, 4))-\(padded(month, 2))-\(padded(date, 2)) "
      + "\(padded(second / 3600, 2)):\(padded(second / 60 % 60, 2)):\(padded(second % 60, 2)) UTC"
  }

  /// An ASN.1 time in seconds since 1970; nil if it is malformed.
  static func unixSeconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64? {
    guard let time = unsafe time, let epoch = unsafe ASN1_TIME_set(nil, 0) else { return nil }
    defer { unsafe ASN1_STRING_free(epoch) }
    var days: Int32 = 0
    var seconds: Int32 = 0
    guard unsafe ASN1_TIME_diff(&days, &seconds, epoch, time) == 1 else {
      OpenSSLErrors.clear()
      return nil
    }
    return Int64(days) * 86_400 + Int64(seconds)
  }

  /// The Gregorian date of a day counted from 1970-01-01. Years begin in March, so that the leap
  /// day is the last day.
  private static func civil(day: Int64) -> (year: Int64, month: Int64, day: Int64) {
    let shifted = day + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let marchMonth = (5 * dayOfYear + 2) / 153
    let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
    return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * marchMonth + 2) / 5 + 1)
  }

  private static func padded(_ number: Int64, _ width: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, width - digits.count)) + digits
  }
}
