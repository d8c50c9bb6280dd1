internal import PushWire

/// Slows down, per address, clients whose TLS handshakes fail over and over: one old library tries again without pause, hundreds of times per second.
///
/// An address may fail a number of times for free; from then on its connections are let in one after another, at intervals that double with each failure.
/// A handshake that succeeds, or a minute without a failure, makes all forgotten. Holds a bounded number of addresses, and knows no clock.
struct AdmissionControl {
  private struct Record {
    var failures: Int
    var lastFailure: Instant
    /// The earliest time at which the next connection is let in.
    var next: Instant
  }

  static let freeFailures = 10
  static let firstInterval = Duration.milliseconds(50)
  static let longestInterval = Duration.seconds(2)
  /// Whoever would have to wait longer than this is turned away instead.
  static let longestWait = Duration.seconds(10)
  static let memory = Duration.seconds(60)
  /// When more addresses misbehave at once, the one that has been quiet for longest is forgotten.
  static let addressLimit = 1024

  private var records: [String: Record] = [:]

  var addressCount: Int { records.count }

  /// How long a new connection must wait for its handshake; nil: turn it away.
  mutating func admit(_ address: String, now: Instant) -> Duration? {
    guard var record = records[address] else { return .zero }
    guard now.since(record.lastFailure) < Self.memory else {
      records[address] = nil
      return .zero
    }
    guard record.failures > Self.freeFailures else { return .zero }
    let start = max(now, record.next)
    let wait = start.since(now)
    guard wait <= Self.longestWait else { return nil }
    record.next = start + interval(record.failures)
    records[address] = record
    return wait
  }

  mutating func failed(_ address: String, now: Instant) {
    if records[address] == nil, records.count >= Self.addressLimit {
      if let oldest = records.min(by: { $0.value.lastFailure < $1.value.lastFailure }) { records[oldest.key] = nil }
    }
    var record = records[address] ?? Record(failures: 0, lastFailure: now, next: now)
    record.failures += 1
    record.lastFailure = now
    record.next = max(record.next, now + interval(record.failures))
    records[address] = record
  }

  mutating func succeeded(_ address: String) {
    records[address] = nil
  }

  private func interval(_ failures: Int) -> Duration {
    guard failures > Self.freeFailures else { return .zero }
    // Six doublings pass the longest interval.
    return min(Self.firstInterval * (1 << min(failures - Self.freeFailures - 1, 6)), Self.longestInterval)
  }
}
