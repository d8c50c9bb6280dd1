internal import PushTransport
internal import PushWire
internal import Synchronization

/// A lane's ``BacklogLimit``. The lane updates it on its loop; the scheduler reads it to choose a
/// lane.
final class BacklogGauge: Sendable {
  private let limit: Atomic<Int>
  private let done = Atomic<UInt64>(0)
  private let state = Atomic<Int>(ConnectionState.closed.rawValue)
  private let leaving = Atomic<Bool>(false)
  private let machine: Mutex<BacklogLimit>
  /// Ranges of the ring, in order, that other lanes have taken over. When the lane reaches them,
  /// they are padding.
  private let withdrawn = Mutex<[Range<UInt64>]>([])
  private let withdrawnBlockCount = Atomic<Int>(0)
  private let batchByteCount: Int

  /// Assumed until the size of a campaign's frames is known.
  private static let usualFrameByteCount = 128

  /// - Parameter largest: the longest backlog allowed, in blocks.
  init(batchByteCount: Int, largest: Int) {
    self.batchByteCount = batchByteCount
    let start = BacklogLimit(
      start: Self.smallest(batchByteCount, frameByteCount: Self.usualFrameByteCount), largest: largest)
    machine = Mutex(start)
    limit = Atomic(start.blockCount)
  }

  /// The lane's connection is open, so new notifications are sent at once.
  var isConnected: Bool { connection == .open }

  enum ConnectionState: Int {
    case closed, opening, open
  }

  var connection: ConnectionState {
    get { ConnectionState(rawValue: state.load(ordering: .relaxed)) ?? .closed }
    set { state.store(newValue.rawValue, ordering: .relaxed) }
  }

  /// The pool has taken the lane back: it takes nothing new, and leaves when its ring is empty.
  var isLeaving: Bool {
    get { leaving.load(ordering: .relaxed) }
    set { leaving.store(newValue, ordering: .relaxed) }
  }

  /// The longest backlog allowed, in blocks.
  var blockCount: Int { limit.load(ordering: .relaxed) }

  /// Blocks that the lane has still to send, or to send again. Only a hint: the ring may change.
  func backlog(of ring: NotificationRing) -> Int {
    let blockCount = max(ring.backlogBlockCount, ring.blockCount(behind: done.load(ordering: .relaxed)))
    return max(0, blockCount - withdrawnBlockCount.load(ordering: .relaxed))
  }

  /// Another lane has taken over the notifications in `range`. Called on the lane's loop.
  func withdrew(_ range: Range<UInt64>) {
    withdrawn.withLock { ranges in
      if let last = ranges.last, last.upperBound == range.lowerBound {
        ranges[ranges.count - 1] = last.lowerBound..<range.upperBound
      } else {
        ranges.append(range)
      }
    }
    withdrawnBlockCount.add(range.count, ordering: .relaxed)
  }

  private func passed(_ done: UInt64) {
    guard withdrawnBlockCount.load(ordering: .relaxed) > 0 else { return }
    withdrawn.withLock { ranges in
      ranges.removeAll { $0.upperBound <= done }
      let left = ranges.reduce(0) { $0 + Int(clamping: $1.upperBound - max($1.lowerBound, done)) }
      withdrawnBlockCount.store(left, ordering: .relaxed)
    }
  }

  /// Called on the lane's loop, once a turn.
  ///
  /// - Parameter done: see ``BacklogLimit/update(published:done:smallest:now:)``.
  func update(published: UInt64, done: UInt64, frameByteCount: Int?, now: Instant) {
    let smallest = Self.smallest(batchByteCount, frameByteCount: frameByteCount ?? Self.usualFrameByteCount)
    let new = machine.withLock { machine in
      machine.update(published: published, done: done, smallest: smallest, now: now)
      return machine.blockCount
    }
    passed(done)
    self.done.store(done, ordering: .relaxed)
    if new != blockCount { limit.store(new, ordering: .relaxed) }
  }

  /// Two batches: one in flight and the next one.
  private static func smallest(_ batchByteCount: Int, frameByteCount: Int) -> Int {
    max(16, 2 * batchByteCount / max(NotificationRing.blockByteCount, frameByteCount))
  }
}
