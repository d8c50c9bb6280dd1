internal import PushWire

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

  package init(run: IntakeRunID, line: UInt32) { (self.run, self.line) = (run, line) }

  /// - Parameter text: a UUID of version 7 in its usual form, in digits of either case.
  package init?(_ text: some StringProtocol) {
    guard let uuid = APNSIdentifier(parsing: String(text)),
      let run = IntakeRunID(high: uuid.high, low: UInt32(uuid.low >> 32))
    else { return nil }
    self.init(run: run, line: UInt32(truncatingIfNeeded: uuid.low))
  }

  package var description: String {
    APNSIdentifier(high: run.high, low: UInt64(run.low) << 32 | UInt64(line)).description
  }
}
