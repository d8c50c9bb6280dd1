internal import Histogram
package import PushEngine

/// A distribution of latencies, in nanoseconds.
package struct LatencySummary: Hashable, Sendable {
  package var count: Int
  package var mean: Double
  /// Latencies at ``percentiles``, in the same order.
  package var values: [UInt64]

  /// What is reported, and, with those in between, what is plotted; 100 is the maximum.
  package static let percentiles: [Double] = [0, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 99.999, 100]

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
  package func at(_ percentile: Double) -> UInt64 {
    Self.percentiles.firstIndex(of: percentile).flatMap { values.indices.contains($0) ? values[$0] : nil } ?? 0
  }
}

/// What was measured with one choice of settings.
package struct BenchPoint: Hashable, Sendable {
  package var settings: BenchSettings
  /// How long was measured.
  package var seconds: Double
  /// What the lanes did meanwhile.
  package var counters: BenchCounters
  /// What the sender (this process, without the simulator) used of the processor meanwhile.
  package var processor: ProcessorTime
  /// From the moment a notification was handed over or, in an open loop, due, until its batch went
  /// to the socket.
  package var toSocket: LatencySummary?
  /// The same until an answer told its fate; nil when there were only silences.
  package var toAnswer: LatencySummary?
  /// To the socket, of the app that trickles beside the others; nil without one.
  package var trickleToSocket: LatencySummary?
  /// The most memory the sender held, in bytes.
  package var peakMemoryByteCount: Int
  /// Of the whole point, the warm-up and the end included.
  package var account: Account
  /// Notifications that were counted: with an outcome if a number of them was asked for, otherwise
  /// those written in the time given.
  package var notificationCount: Int

  package var perSecond: Double { seconds > 0 ? Double(notificationCount) / seconds : 0 }

  private func perNotification(_ seconds: Double) -> Double {
    notificationCount > 0 ? seconds * 1e6 / Double(notificationCount) : 0
  }
  /// Microseconds of the processor's time per notification.
  package var userMicroseconds: Double { perNotification(processor.user) }
  package var systemMicroseconds: Double { perNotification(processor.system) }

  package var notificationsPerBatch: Double { mean(counters.batchedNotifications, per: counters.batches) }
  package var bytesPerBatch: Double { mean(counters.batchedBytes, per: counters.batches) }
  /// Of frames, without what TLS adds.
  package var bytesPerTLSRecord: Double { mean(counters.batchedBytes, per: counters.tlsRecords) }
  /// 0…1: how full the batches were, against their bound.
  package var batchFill: Double { min(1, bytesPerBatch / Double(max(1, settings.batchByteCount))) }

  private func mean(_ sum: Int, per count: Int) -> Double { count > 0 ? Double(sum) / Double(count) : 0 }
}

/// Everything that a run of `carillon bench` has found.
package struct BenchReport: Sendable {
  package var plan: BenchPlan
  package var machine: BenchMachine
  /// In the order in which they were run; fewer than planned if it was interrupted.
  package var points: [BenchPoint]
  /// What the simulator has accepted in all; nil with another gateway.
  package var simulatorAccepted: Int?
  /// The accounts say so.
  package var accepted: Int { points.map(\.account.accepted).reduce(0, +) }

  /// Points are missing, and the last one was cut short.
  package var isInterrupted = false
  /// False when the simulator has counted something else than the accounts say.
  package var agrees: Bool { simulatorAccepted.map { $0 == accepted } ?? true }

  package func point(_ settings: BenchSettings) -> BenchPoint? { points.first { $0.settings == settings } }
}
