internal import PushWire
internal import Synchronization

/// Which lines of a campaign have waited for too long: those before ``end(now:)``.
///
/// The reader says when it has read which lines, and lanes look before they send. Lines that were
/// read at about the same time share a mark, so no line costs anything.
final class CampaignAges: Sendable {
  private struct Mark {
    var line: UInt64
    /// When the last of its lines was read.
    var at: Instant
  }

  private let limit: Duration
  private let marks = Mutex<[Mark]>([])
  private let passed = Atomic<UInt64>(0)
  /// When the first mark has waited for too long, in nanoseconds.
  private let due = Atomic<UInt64>(.max)

  /// A hundredth of the limit, so that a mark is not much older than its lines.
  private let resolution: Duration
  private static let shortestResolution = Duration.milliseconds(10)

  /// - Parameter limit: how long a line may wait.
  init(limit: Duration) {
    self.limit = limit
    resolution = max(Self.shortestResolution, limit / 100)
  }

  /// Lines up to `line` were read.
  func took(through line: UInt64, now: Instant) {
    marks.withLock { marks in
      // A mark has at most the lines of one resolution, so there are about a hundred of them.
      if marks.count >= 2, now.since(marks[marks.count - 2].at) < resolution {
        marks[marks.count - 1] = Mark(line: line, at: now)
      } else {
        marks.append(Mark(line: line, at: now))
      }
      setDue(marks)
    }
  }

  /// Lines before this one have waited for too long.
  func end(now: Instant) -> UInt64 {
    if now.nanoseconds >= due.load(ordering: .relaxed) {
      marks.withLock { marks in
        let count = marks.firstIndex { $0.at + limit > now } ?? marks.count
        if count > 0 { passed.store(marks[count - 1].line + 1, ordering: .relaxed) }
        marks.removeFirst(count)
        setDue(marks)
      }
    }
    return passed.load(ordering: .relaxed)
  }

  private func setDue(_ marks: [Mark]) {
    due.store(marks.first.map { ($0.at + limit).nanoseconds } ?? .max, ordering: .relaxed)
  }
}
