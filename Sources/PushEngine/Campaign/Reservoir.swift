internal import Synchronization

/// Notifications of one campaign that are in the journal and in no lane yet.
///
/// In the journal it is a lane that never has a connection, so no intent ever covers what lies in
/// it. It looks like the lane of an earlier process: its contents are in memory, and what another
/// lane takes over has this one as its source (``EnqueueHeader/Source``). So recovery, compaction
/// and the end of a campaign treat it as they treat what an earlier process left unsent.
///
/// Used by one reader.
struct Reservoir {
  /// Its number in the journal.
  let lane: UInt64
  let gauge: ReservoirGauge
  /// Runs in the order of their positions. Those before the index `first` have been taken, and are
  /// nil: a queue that never empties must not keep them.
  private var runs: [RecoveredRun?] = []
  private var first = 0
  /// How much of the first run is in lanes.
  private var cursor: EnqueueContent.Cursor?
  private var takenCount = 0
  /// The position of the next run.
  private(set) var end: UInt64 = 0

  init(journal: EngineJournal, gauge: ReservoirGauge) {
    lane = journal.takeReservoirNumber()
    self.gauge = gauge
  }

  var isEmpty: Bool { first == runs.count }

  /// Adds what was written into the journal.
  mutating func append(_ run: RecoveredRun) {
    runs.append(run)
    end = run.range.upperBound
    gauge.add(count: run.count, byteCount: run.memoryByteCount)
  }

  /// Puts up to `limit` of the oldest into the chunk, which it empties first. They stay in the
  /// reservoir until ``took(_:)``. The chunk must have room for any notification.
  func fill(_ chunk: AudienceChunk, limit: Int) {
    chunk.removeAll()
    guard !isEmpty, let run = runs[first] else { return }
    var place = cursor ?? run.start
    chunk.append(run, from: &place, limit: min(limit, run.count - takenCount))
  }

  /// A lane has taken over the oldest `count` of one chunk.
  mutating func took(_ count: Int) {
    guard count > 0, let run = runs[first] else { return }
    var place = cursor ?? run.start
    var left = count
    run.content.walk(&place) { _ in
      guard left > 0 else { return false }
      left -= 1
      return true
    }
    cursor = place
    takenCount += count
    if takenCount == run.count { removeFirst() } else { gauge.remove(count: count, byteCount: 0) }
    func removeFirst() {
      gauge.remove(count: count, byteCount: run.memoryByteCount)
      runs[first] = nil
      first += 1
      (cursor, takenCount) = (nil, 0)
      guard first >= 64, first * 2 >= runs.count else { return }
      runs.removeFirst(first)
      first = 0
    }
  }

  /// Everything that no lane has taken over, and how many of the first run one has.
  var rest: (runs: [RecoveredRun], takenCount: Int) { (runs[first...].compactMap(\.self), takenCount) }
}

/// How much lies in reservoirs, for those who ask from other threads.
package final class ReservoirGauge: Sendable {
  private let notifications = Atomic<Int>(0)
  private let bytes = Atomic<Int>(0)

  package init() {}

  package var count: Int { notifications.load(ordering: .relaxed) }
  /// The memory that they take.
  package var byteCount: Int { bytes.load(ordering: .relaxed) }

  func add(count: Int, byteCount: Int) {
    notifications.add(count, ordering: .relaxed)
    bytes.add(byteCount, ordering: .relaxed)
  }

  func remove(count: Int, byteCount: Int) {
    notifications.subtract(count, ordering: .relaxed)
    bytes.subtract(byteCount, ordering: .relaxed)
  }
}

extension RecoveredRun {
  /// The memory that it takes here and in ``JournalState``.
  var memoryByteCount: Int { content.bytes.count + 512 }
}
