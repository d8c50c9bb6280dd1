/// Decides how far ahead of its reader a segment is granted: as far as lanes read until the next
/// flush but one has been acknowledged, and no further, because whoever takes the segment over must
/// list all of it.
package struct GrantMachine: Sendable {
  package static let bounds = 1_024...65_536

  /// Lines that were read in a second, measured over earlier flushes.
  package private(set) var rate = 0.0
  /// The longest flush of late, in seconds; it shrinks with every shorter one.
  private var flushSeconds = 0.0
  private var last: (line: Int, at: Instant)?
  private let bounds: ClosedRange<Int>

  /// How many lines to grant beyond the last one that was read.
  package private(set) var ahead: Int

  /// - Parameter ahead: of another segment that the same lanes read; nil: there is none.
  package init(bounds: ClosedRange<Int> = Self.bounds, ahead: Int? = nil) {
    self.bounds = bounds
    self.ahead = min(max(ahead ?? bounds.lowerBound, bounds.lowerBound), bounds.upperBound)
  }

  /// Notes how far the reader is, when a flush begins.
  ///
  /// - Parameter isStarved: the reader has read all that was granted, and could have read more.
  package mutating func note(readThrough line: Int, isStarved: Bool, now: Instant) {
    if let last {
      let seconds = now.since(last.at).inSeconds
      guard seconds > 0 else { return }
      let measured = Double(line - last.line) / seconds
      rate = measured > rate ? measured : rate * 0.8 + measured * 0.2
      let needed = Int(min(rate * 2 * (seconds + flushSeconds), Double(bounds.upperBound)))
      // What it can read is not known while it waits.
      let wanted = isStarved ? max(needed, ahead * 2) : needed
      ahead = min(max(wanted, bounds.lowerBound), bounds.upperBound)
    }
    last = (line, now)
  }

  /// Notes how long the ledger took to acknowledge a flush.
  package mutating func acknowledged(after duration: Duration) {
    flushSeconds = max(duration.inSeconds, flushSeconds * 0.9)
  }
}
