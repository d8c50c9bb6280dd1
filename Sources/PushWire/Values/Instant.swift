/// A point on a monotonic clock, in nanoseconds since an arbitrary start.
///
/// Machines take it as a parameter and never read a clock, so that a simulation can control time.
package struct Instant: Comparable, Hashable, Sendable {
  package var nanoseconds: UInt64

  package init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

  package static let start = Instant(nanoseconds: 0)

  package static func < (left: Instant, right: Instant) -> Bool { left.nanoseconds < right.nanoseconds }

  /// Saturates instead of trapping: a deadline that does not fit is never reached.
  package static func + (instant: Instant, duration: Duration) -> Instant {
    let (sum, overflow) = instant.nanoseconds.addingReportingOverflow(duration.wholeNanoseconds)
    return Instant(nanoseconds: overflow ? .max : sum)
  }

  static func earliest(_ left: Instant?, _ right: Instant?) -> Instant? {
    guard let left, let right else { return left ?? right }
    return min(left, right)
  }

  /// The time from `earlier` to this instant; zero if `earlier` is later.
  package func since(_ earlier: Instant) -> Duration {
    .nanoseconds(Int64(clamping: nanoseconds > earlier.nanoseconds ? nanoseconds - earlier.nanoseconds : 0))
  }
}

extension Duration {
  /// This duration in nanoseconds: zero if it is negative, `UInt64.max` (584 years) if it does not
  /// fit.
  package var wholeNanoseconds: UInt64 {
    let (seconds, attoseconds) = components
    guard seconds >= 0, attoseconds >= 0 else { return 0 }
    let (product, overflow) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
    let (sum, carried) = product.addingReportingOverflow(UInt64(attoseconds) / 1_000_000_000)
    return overflow || carried ? .max : sum
  }

  /// This duration in seconds, for rates and for display.
  package var inSeconds: Double { Double(wholeNanoseconds) / 1e9 }
}
