internal import PushWire

/// Which frames of a connection its client may send again when the connection breaks.
///
/// Old libraries retry the frame whose write failed, or the last one. None sends older ones again.
/// So only frames that came shortly before the break are remembered, and of those only the ones
/// that were new: a frame that was recognised has been its client's resend already.
struct ResendReach: Sendable {
  /// The first frame of a second in which some came.
  private struct Mark {
    let frame: UInt64
    let at: Instant
  }

  /// How long before a break a frame may have come to be remembered.
  static let duration = Duration.seconds(10)
  private static let step = Duration.seconds(1)
  /// As many recognised frames are told apart. Later ones would be remembered as new ones.
  private static let recognisedLimit = 65_536

  private var marks: [Mark] = []
  private var recognised: Set<UInt64> = []

  /// Frames from this one on come now.
  mutating func arrive(_ frame: UInt64, now: Instant) {
    if let last = marks.last, now.since(last.at) < Self.step { return }
    let oldCount = marks.prefix { !covers($0, now: now) }.count
    marks.removeFirst(oldCount)
    if oldCount > 0 {
      let first = marks.first?.frame ?? frame
      recognised = recognised.filter { $0 >= first }
    }
    marks.append(Mark(frame: frame, at: now))
  }

  mutating func recognise(_ frame: UInt64) {
    if recognised.count < Self.recognisedLimit { recognised.insert(frame) }
  }

  /// Whether a frame may come again after a break.
  ///
  /// - Parameter first: see ``first(now:next:)``.
  func comesAgain(_ frame: UInt64, first: UInt64) -> Bool { frame >= first && !recognised.contains(frame) }

  /// The first frame that came shortly before now.
  ///
  /// - Parameter next: the number of the frame that would come next.
  func first(now: Instant, next: UInt64) -> UInt64 {
    marks.first { covers($0, now: now) }?.frame ?? next
  }

  /// The frames of a mark came up to a step after it.
  private func covers(_ mark: Mark, now: Instant) -> Bool { now.since(mark.at) <= Self.duration + Self.step }
}
