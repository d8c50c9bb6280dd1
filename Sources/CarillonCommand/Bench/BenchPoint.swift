internal import Histogram
internal import PushEngine

/// A distribution of latencies, in nanoseconds.
struct LatencySummary: Hashable, Sendable {
  var count: Int
  var mean: Double
  /// Latencies at ``percentiles``, in the same order.
  var values: [UInt64]

  /// What is reported, and, with those in between, what is plotted; 100 is the maximum.
  static let percentiles: [Double] = [0, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 99.999, 100]

  /// Nil when nothing was recorded.
  init?(_ record: LatencyRecord) {
    guard record.histogram.totalCount > 0 else { return nil }
    count = Int(clamping: record.histogram.totalCount)
    mean = record.histogram.mean
    values = Self.percentiles.map { record.histogram.valueAtPercentile($0) }
  }

  init(count: Int, mean: Double, values: [UInt64]) {
    self.count = count
    self.mean = mean
    self.values = values
  }

  /// `percentile` is one of ``percentiles``.
  func at(_ percentile: Double) -> UInt64 {
    Self.percentiles.firstIndex(of: percentile).flatMap { values.indices.contains($0) ? values[$0] : nil } ?? 0
  }
}

/// What was measured with one choice of settings.
struct BenchPoint: Hashable, Sendable {
  var settings: BenchSettings
  /// How long was measured.
  var seconds: Double
  /// What the lanes did meanwhile.
  var counters: BenchCounters
  /// What the sender (this process, without the simulator) used of the processor meanwhile.
  var processor: ProcessorTime
  /// From the moment a notification was handed over or, in an open loop, due, until its batch went to the socket.
  var toSocket: LatencySummary?
  /// The same until an answer told its fate; nil when there were only silences.
  var toAnswer: LatencySummary?
  /// To the socket, of the app that trickles beside the others; nil without one.
  var trickleToSocket: LatencySummary?
  /// The most memory the sender held, in bytes.
  var peakMemoryByteCount: Int
  /// Of the whole point, the warm-up and the end included.
  var account: Account
  /// Notifications that were counted: with an outcome if a number of them was asked for, otherwise those written in the time given.
  var notificationCount: Int

  var perSecond: Double { seconds > 0 ? Double(notificationCount) / seconds : 0 }

  private func perNotification(_ seconds: Double) -> Double { notificationCount > 0 ? seconds * 1e6 / Double(notificationCount) : 0 }
  /// Microseconds of the processor's time per notification.
  var userMicroseconds: Double { perNotification(processor.user) }
  var systemMicroseconds: Double { perNotification(processor.system) }

  var notificationsPerBatch: Double { mean(counters.batchedNotifications, per: counters.batches) }
  var bytesPerBatch: Double { mean(counters.batchedBytes, per: counters.batches) }
  /// Of frames, without what TLS adds.
  var bytesPerTLSRecord: Double { mean(counters.batchedBytes, per: counters.tlsRecords) }
  /// 0…1: how full the batches were, against their bound.
  var batchFill: Double { min(1, bytesPerBatch / Double(max(1, settings.batchByteCount))) }

  private func mean(_ sum: Int, per count: Int) -> Double { count > 0 ? Double(sum) / Double(count) : 0 }
}

/// Everything that a run of `carillon bench` has found.
struct BenchReport: Sendable {
  var plan: BenchPlan
  var machine: BenchMachine
  /// In the order in which they were run; fewer than planned if it was interrupted.
  var points: [BenchPoint]
  /// What the simulator has accepted in all; nil with another gateway.
  var simulatorAccepted: Int?
  /// The accounts say so.
  var accepted: Int { points.map(\.account.accepted).reduce(0, +) }

  /// Points are missing, and the last one was cut short.
  var isInterrupted = false
  /// False when the simulator has counted something else than the accounts say.
  var agrees: Bool { simulatorAccepted.map { $0 == accepted } ?? true }

  func point(_ settings: BenchSettings) -> BenchPoint? { points.first { $0.settings == settings } }
}
