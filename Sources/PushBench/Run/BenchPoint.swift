internal import Histogram
package import PushEngine

/// A distribution of latencies, in nanoseconds.
package struct LatencySummary: Hashable, Sendable {
  package var count: Int
  package var mean: Double
  /// Latencies at ``percentiles``, in the same order.
  package var values: [UInt64]

  /// The percentiles that are plotted; the report has some of them. 100 is the maximum.
  package static let percentiles: [Double] = [0, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 99.999, 100]

  /// Nil when nothing was recorded.
  init?(_ record: LatencyRecord) {
    guard record.histogram.totalCount > 0 else { return nil }
    count = Int(clamping: record.histogram.totalCount)
    mean = record.histogram.mean
    values = Self.percentiles.map { record.histogram.valueAtPercentile($0) }
  }

  init(count: Int, mean: Double, values: [UInt64]) {
    (self.count, self.mean, self.values) = (count, mean, values)
  }

  /// - Parameter percentile: One of ``percentiles``.
  package func at(_ percentile: Double) -> UInt64 {
    Self.percentiles.firstIndex(of: percentile).flatMap { values.indices.contains($0) ? values[$0] : nil } ?? 0
  }
}

/// The measurements of one choice of settings.
package struct BenchPoint: Hashable, Sendable {
  package var settings: BenchSettings
  /// The measured time.
  package var seconds: Double
  /// The counts of the lanes in that time.
  package var counters: BenchCounters
  /// The processor time of the sender in that time: this process, without the simulator.
  package var processor: ProcessorTime
  /// From the time at which a notification was handed over, or due in an open loop, until its batch
  /// was written to the socket.
  package var toSocket: LatencySummary?
  /// The same until the response that settled it; nil when there were no responses.
  package var toAnswer: LatencySummary?
  /// Until the socket, for the trickle app; nil without one.
  package var trickleToSocket: LatencySummary?
  /// The sender's peak memory in bytes.
  package var peakMemoryByteCount: Int
  /// The account of the whole point, including warm-up and end.
  package var account: Account
  /// The notifications that were counted. With a given number: those with an outcome. With a given
  /// time: those written in it.
  package var notificationCount: Int

  package var perSecond: Double { seconds > 0 ? Double(notificationCount) / seconds : 0 }

  private func perNotification(_ seconds: Double) -> Double {
    notificationCount > 0 ? seconds * 1e6 / Double(notificationCount) : 0
  }
  /// Microseconds of processor time per notification.
  package var userMicroseconds: Double { perNotification(processor.user) }
  package var systemMicroseconds: Double { perNotification(processor.system) }

  package var notificationsPerBatch: Double { mean(counters.batchedNotifications, per: counters.batches) }
  package var bytesPerBatch: Double { mean(counters.batchedBytes, per: counters.batches) }
  /// Bytes of frames, without the overhead of TLS.
  package var bytesPerTLSRecord: Double { mean(counters.batchedBytes, per: counters.tlsRecords) }
  /// 0…1: how full the batches were.
  package var batchFill: Double { min(1, bytesPerBatch / Double(max(1, settings.batchByteCount))) }

  private func mean(_ sum: Int, per count: Int) -> Double { count > 0 ? Double(sum) / Double(count) : 0 }
}

/// The results of a run of `carillon bench`.
package struct BenchReport: Sendable {
  package var plan: BenchPlan
  package var machine: BenchMachine
  /// In the order of the run. Fewer than planned after an interruption.
  package var points: [BenchPoint]
  /// What the simulator accepted in all; nil with another gateway.
  package var simulatorAccepted: Int?
  /// What the accounts call accepted.
  package var accepted: Int { points.map(\.account.accepted).reduce(0, +) }

  /// The run was interrupted: points are missing, and the last one was cut short.
  package var isInterrupted = false
  /// False: the simulator's count differs from the accounts.
  package var agrees: Bool { simulatorAccepted.map { $0 == accepted } ?? true }

  package func point(_ settings: BenchSettings) -> BenchPoint? { points.first { $0.settings == settings } }
}
