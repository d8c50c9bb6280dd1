/// Names notifications that a service accepted: each is the run's number and a line in it.
///
/// Together they are a UUID of version 7 (RFC 9562, section 5.7). Runs of different machines have
/// different numbers without their having met: a time in milliseconds and 42 random bits.
package struct IntakeRunID: Hashable, Sendable {
  /// The time, the version and 12 random bits.
  package let high: UInt64
  /// The variant and 30 random bits.
  package let low: UInt32

  /// - Parameters:
  ///   - milliseconds: since 1970.
  ///   - random: 42 bits of it are used.
  package init(milliseconds: UInt64, random: UInt64) {
    high = milliseconds << 16 | 0x7000 | random & 0xFFF
    low = 0x8000_0000 | UInt32(truncatingIfNeeded: random >> 12) & 0x3FFF_FFFF
  }

  /// When it was made, since 1970.
  package var milliseconds: UInt64 { high >> 16 }

  /// - Returns: nil unless the two are what ``high`` and ``low`` of a run can be.
  package init?(high: UInt64, low: UInt32) {
    guard high >> 12 & 0xF == 7, low >> 30 == 2 else { return nil }
    (self.high, self.low) = (high, low)
  }
}

/// Names one notification for its caller.
package struct NotificationID: Hashable, Sendable, CustomStringConvertible {
  package let run: IntakeRunID
  /// The line in the run, from 1.
  package let line: UInt32

  package init(run: IntakeRunID, line: UInt32) {
    self.run = run
    self.line = line
  }

  /// - Parameter text: a UUID of version 7 in its usual form, in digits of either case.
  package init?(_ text: some StringProtocol) {
    let utf8 = Array(text.utf8)
    guard utf8.count == 36 else { return nil }
    var (high, low): (UInt64, UInt64) = (0, 0)
    var digitCount = 0
    for (index, byte) in utf8.enumerated() {
      if [8, 13, 18, 23].contains(index) {
        guard byte == UInt8(ascii: "-") else { return nil }
        continue
      }
      guard let digit = Character(UnicodeScalar(byte)).hexDigitValue else { return nil }
      if digitCount < 16 { high = high << 4 | UInt64(digit) } else { low = low << 4 | UInt64(digit) }
      digitCount += 1
    }
    guard let run = IntakeRunID(high: high, low: UInt32(low >> 32)) else { return nil }
    self.init(run: run, line: UInt32(truncatingIfNeeded: low))
  }

  package var description: String {
    let digits = Self.digits(run.high, count: 16) + Self.digits(UInt64(run.low) << 32 | UInt64(line), count: 16)
    var text = ""
    for (index, digit) in digits.enumerated() {
      if [8, 12, 16, 20].contains(index) { text.append("-") }
      text.append(digit)
    }
    return text
  }

  private static func digits(_ value: UInt64, count: Int) -> String {
    let text = String(value, radix: 16)
    return String(repeating: "0", count: count - text.count) + text
  }
}
