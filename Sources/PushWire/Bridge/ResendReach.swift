/// Which frames of a connection its client may send again when the connection breaks.
///
/// Old libraries retry the frame whose write failed, or the last one. None sends older ones again.
/// So only frames that came shortly before the break are remembered.
struct ResendReach: Sendable {
  /// The first frame of a second in which some came.
  private struct Mark {
    let frame: UInt64
    let at: Instant
  }

  /// How long before a break a frame may have come to be remembered.
  static let duration = Duration.seconds(10)
  private static let step = Duration.seconds(1)

  private var marks: [Mark] = []
  private var stoppedAt: Instant?

  /// Frames from this one on come now.
  mutating func arrive(_ frame: UInt64, now: Instant) {
    if let last = marks.last, now.since(last.at) < Self.step { return }
    marks.removeFirst(marks.prefix { !covers($0, now: now) }.count)
    marks.append(Mark(frame: frame, at: now))
  }

  /// No frames come from now on. Time that passes until the connection ends does not count.
  mutating func stop(now: Instant) { stoppedAt = stoppedAt ?? now }

  /// The first frame that came shortly before now.
  ///
  /// - Parameter next: the number of the frame that would come next.
  func first(now: Instant, next: UInt64) -> UInt64 {
    marks.first { covers($0, now: stoppedAt ?? now) }?.frame ?? next
  }

  /// The frames of a mark came up to a step after it.
  private func covers(_ mark: Mark, now: Instant) -> Bool { now.since(mark.at) <= Self.duration + Self.step }
}
