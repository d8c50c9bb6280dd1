internal import PushEngine
internal import PushTransport
internal import PushWire
internal import Synchronization

/// Measures how many notifications are written together, and how long the gateway takes for them:
/// a few steps for each batch and each run of outcomes.
final class DeliveryObserver: LaneObserver {
  private let batchSize: HistogramSeries
  private let duration: HistogramSeries
  private let lanes = Mutex<[ObjectIdentifier: BatchTimes]>([:])

  init(batchSize: HistogramSeries, duration: HistogramSeries) {
    (self.batchSize, self.duration) = (batchSize, duration)
  }

  func wrote(_ batch: LaneBatch) {
    batchSize.record(ticks: batch.count, count: 1)
    // What is sent again is measured from the first time.
    guard !batch.isResend else { return }
    lanes.withLock { lanes in
      lanes[ObjectIdentifier(batch.ring), default: BatchTimes()].wrote(
        batch.positions, count: batch.count, at: batch.now)
    }
  }

  func settled(_ settlement: Settlement, ring: NotificationRing, now: Instant) {
    guard settlement.outcome.isFromGateway else { return }
    let key = ObjectIdentifier(ring)
    let parts = lanes.withLock { lanes in
      let parts = lanes[key]?.settled(settlement.from..<settlement.to, count: settlement.count) ?? []
      if lanes[key]?.isEmpty == true { lanes[key] = nil }
      return parts
    }
    for part in parts { duration.record(now.since(part.at), count: part.count) }
  }
}

extension Outcome {
  fileprivate var isFromGateway: Bool {
    switch self {
    case .accepted, .rejected: true
    case .suppressed, .capped, .holdout, .expired, .held, .cancelled, .unknown: false
    }
  }
}

/// When the batches of one lane were written, the oldest first.
struct BatchTimes: Sendable {
  struct Part: Hashable, Sendable {
    let at: Instant
    let count: Int
  }

  private struct Batch {
    var positions: Range<UInt64>
    var count: Int
    let at: Instant
  }

  private var batches: [Batch] = []

  /// The oldest are forgotten: what gets its outcome then is not measured.
  static let limit = 4096
  /// Batches that have all their outcomes are removed together.
  private static let portion = 64

  init() {}

  var isEmpty: Bool { batches.isEmpty }

  mutating func wrote(_ positions: Range<UInt64>, count: Int, at instant: Instant) {
    guard !positions.isEmpty else { return }
    // Another lane with the same address has started.
    if let last = batches.last, positions.lowerBound < last.positions.upperBound { batches = [] }
    if batches.count == Self.limit { batches.removeFirst(Self.limit / 2) }
    batches.append(Batch(positions: positions, count: count, at: instant))
  }

  /// When the notifications in a run were written. Outcomes come in any order.
  mutating func settled(_ run: Range<UInt64>, count: Int) -> [Part] {
    var parts: [Part] = []
    var (left, index) = (count, firstIndex(endingAfter: run.lowerBound))
    while left > 0, index < batches.count, batches[index].positions.lowerBound < run.upperBound {
      let taken = min(left, batches[index].count)
      if taken > 0 { parts.append(Part(at: batches[index].at, count: taken)) }
      batches[index].count -= taken
      left -= taken
      index += 1
    }
    let ended = batches.firstIndex { $0.count > 0 } ?? batches.count
    if ended == batches.count || ended >= Self.portion { batches.removeFirst(ended) }
    return parts
  }

  private func firstIndex(endingAfter position: UInt64) -> Int {
    var (low, high) = (0, batches.count)
    while low < high {
      let middle = (low + high) / 2
      if batches[middle].positions.upperBound > position { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
