internal import PushWire

/// How long the oldest notification of a run has waited for its outcome.
///
/// A value without a clock. Outcomes are only counted, as if they came in the order of the lines. A
/// single late one among many has no effect.
struct QueueAge: Sendable {
  /// Lines up to this one were accepted at this time, or a little later.
  private struct Mark {
    var line: UInt64
    var at: Instant
  }

  private var marks: [Mark] = []
  private var first = 0

  /// Lines of neighbours in time share a mark.
  private static let resolution = Duration.milliseconds(100)
  /// With more marks, every other one is dropped.
  private static let markLimit = 4096

  /// Lines up to `line` were accepted.
  mutating func took(through line: UInt64, now: Instant) {
    if let last = marks.indices.last, last >= first, now.since(marks[last].at) < Self.resolution {
      marks[last].line = line
    } else {
      marks.append(Mark(line: line, at: now))
    }
    if marks.count - first > Self.markLimit { thin() }
  }

  /// The first `count` lines have their outcome.
  mutating func settled(_ count: UInt64) {
    while first < marks.count, marks[first].line <= count { first += 1 }
    guard first == marks.count || first >= 1024 else { return }
    marks.removeFirst(first)
    first = 0
  }

  /// The mark that stays has the earlier time of the two.
  private mutating func thin() {
    var kept: [Mark] = []
    for index in stride(from: first, to: marks.count, by: 2) {
      kept.append(Mark(line: marks[min(index + 1, marks.count - 1)].line, at: marks[index].at))
    }
    (marks, first) = (kept, 0)
  }

  /// When the oldest one without an outcome was accepted; nil: there is none.
  var oldest: Instant? { first < marks.count ? marks[first].at : nil }
}
