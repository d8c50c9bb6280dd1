internal import Histogram
internal import PushEngine
internal import PushTransport
internal import PushWire
internal import Synchronization

/// Latencies in nanoseconds, to three significant digits, up to an hour.
struct LatencyRecord: Sendable {
  private(set) var histogram = Histogram<UInt64>(
    lowestDiscernibleValue: 1_000, highestTrackableValue: 3_600_000_000_000)

  mutating func record(_ nanoseconds: UInt64, count: Int) {
    histogram.record(min(nanoseconds, 3_600_000_000_000), count: UInt64(count))
  }
}

/// What the lanes have done. The numbers only grow.
package struct BenchCounters: Hashable, Sendable {
  /// Notifications written to a socket for the first time, and resent.
  package var written = 0
  package var resent = 0
  /// Notifications with an outcome.
  package var settled = 0
  /// Notifications never written before the measurement was cut off.
  package var unsent = 0
  package var batches = 0
  /// Frames in those batches, before TLS.
  package var batchedBytes = 0
  package var batchedNotifications = 0
  package var tlsRecords = 0

  package static func - (later: BenchCounters, earlier: BenchCounters) -> BenchCounters {
    BenchCounters(
      written: later.written - earlier.written, resent: later.resent - earlier.resent,
      settled: later.settled - earlier.settled, unsent: later.unsent - earlier.unsent,
      batches: later.batches - earlier.batches, batchedBytes: later.batchedBytes - earlier.batchedBytes,
      batchedNotifications: later.batchedNotifications - earlier.batchedNotifications,
      tlsRecords: later.tlsRecords - earlier.tlsRecords)
  }
}

/// Measures an engine by its lanes' reports. All apps share one: a batch holds hundreds of
/// notifications, so the lock is rarely taken.
final class BenchRecorder: Sendable {
  fileprivate struct State {
    var counters = BenchCounters()
    /// From the time at which a notification was due, to the socket and to the response.
    var toSocket = LatencyRecord()
    var toAnswer = LatencyRecord()
    /// Latencies count only for notifications that are due in this time.
    var window: Range<UInt64>
    let isOpenLoop: Bool

    init(isOpenLoop: Bool, window: Range<UInt64>) { (self.isOpenLoop, self.window) = (isOpenLoop, window) }
  }

  private let state: Mutex<State>
  private let startedApps = Atomic(0)

  /// The most that TLS carries in one record. OpenSSL fills records from a single write.
  static let tlsRecordByteCountLimit = 16_384

  /// - Parameter countsAll: latencies count from the first notification on.
  init(isOpenLoop: Bool, countsAll: Bool = false) {
    state = Mutex(State(isOpenLoop: isOpenLoop, window: 0..<(countsAll ? .max : 0)))
  }

  /// The number of apps that have sent something.
  var startedAppCount: Int { startedApps.load(ordering: .acquiring) }
  var counters: BenchCounters { state.withLock { $0.counters } }
  var latencies: (toSocket: LatencyRecord, toAnswer: LatencyRecord) { state.withLock { ($0.toSocket, $0.toAnswer) } }

  /// Counts latencies of the notifications that are due in `window` from now on.
  func measure(_ window: Range<UInt64>) { state.withLock { $0.window = window } }

  /// The observer for one app's lanes.
  func makeObserver() -> any LaneObserver { Observer(recorder: self) }

  /// Counts notifications that were due and not handed over before the measurement was cut off.
  func gaveUp(on overdue: [BenchAudience.Overdue], now: UInt64) {
    state.withLock { state in
      for group in overdue { state.neverWritten(group.due, count: group.count, now: now) }
    }
  }

  private final class Observer: LaneObserver {
    private let recorder: BenchRecorder
    private let hasStarted = Atomic(false)

    init(recorder: BenchRecorder) { self.recorder = recorder }

    func wrote(_ batch: LaneBatch) {
      if !hasStarted.load(ordering: .relaxed), !hasStarted.exchange(true, ordering: .relaxed) {
        recorder.startedApps.add(1, ordering: .releasing)
      }
      recorder.state.withLock { $0.wrote(batch) }
    }

    func settled(_ settlement: Settlement, ring: NotificationRing, now: Instant) {
      recorder.state.withLock { $0.settled(settlement, ring: ring, now: now.nanoseconds) }
    }
  }
}

extension BenchRecorder.State {
  fileprivate mutating func wrote(_ batch: LaneBatch) {
    let now = batch.now.nanoseconds
    if batch.isResend {
      counters.resent += batch.count
    } else {
      counters.written += batch.count
      Self.forEachTime(batch.ring, batch.positions, count: batch.count, isOpenLoop: isOpenLoop) { due, count in
        if window.contains(due) { toSocket.record(now - min(due, now), count: count) }
      }
    }
    counters.batches += 1
    counters.batchedBytes += batch.byteCount
    counters.batchedNotifications += batch.count
    counters.tlsRecords +=
      (batch.byteCount + BenchRecorder.tlsRecordByteCountLimit - 1) / BenchRecorder.tlsRecordByteCountLimit
  }

  /// In a closed loop, a batch holds parts of one or two chunks with one time each. The first
  /// notification's time is used for all: a walk through the batch would cost as much as it
  /// measures. In an open loop each notification has its own time.
  private static func forEachTime(
    _ ring: NotificationRing, _ positions: Range<UInt64>, count: Int, isOpenLoop: Bool,
    _ body: (_ due: UInt64, _ count: Int) -> Void
  ) {
    let first = ring.record(at: positions.lowerBound)
    if !isOpenLoop, first.isNotification { return body(first.ordinal, count) }
    ring.forEachOrdinal(from: positions.lowerBound, to: positions.upperBound, body)
  }

  fileprivate mutating func settled(_ settlement: Settlement, ring: NotificationRing, now: UInt64) {
    counters.settled += settlement.count
    let positions = settlement.from..<settlement.to
    switch settlement.outcome {
    case .accepted(.confirmed), .rejected:
      Self.forEachTime(ring, positions, count: settlement.count, isOpenLoop: isOpenLoop) { due, count in
        if window.contains(due) { toAnswer.record(now - min(due, now), count: count) }
      }
    case .cancelled:
      Self.forEachTime(ring, positions, count: settlement.count, isOpenLoop: isOpenLoop) { due, count in
        neverWritten(due, count: count, now: now)
      }
    default: break
    }
  }

  /// Counts the wait so far as the latency. Leaving it out would hide the worst latencies.
  fileprivate mutating func neverWritten(_ due: UInt64, count: Int, now: UInt64) {
    counters.unsent += count
    if window.contains(due) { toSocket.record(now - min(due, now), count: count) }
  }
}
