/// 128 bits that stand for the content of a notification, to recognise one that is sent again. Two
/// contents have the same digest by accident only.
package struct FrameDigest: Hashable, Sendable {
  package static let byteCount = 16

  package let high: UInt64
  package let low: UInt64

  package init(high: UInt64, low: UInt64) { (self.high, self.low) = (high, low) }
}

/// A line of an intake run: where the journal has a notification.
package struct ForwardedLine: Hashable, Sendable {
  /// The two parts of the run's number.
  package let high: UInt64
  package let low: UInt32
  package let line: UInt32

  package init(high: UInt64, low: UInt32, line: UInt32) { (self.high, self.low, self.line) = (high, low, line) }

  /// A later line of the same run.
  package func advanced(by count: Int) -> ForwardedLine {
    ForwardedLine(high: high, low: low, line: line &+ UInt32(truncatingIfNeeded: count))
  }
}
