internal import PushWire

/// Slows down addresses whose TLS handshakes fail repeatedly. One old client library retries
/// hundreds of times a second without a pause.
///
/// The first failures of an address are free. After them, its connections are admitted one after
/// another, at intervals that double with each failure. A successful handshake, or a minute without
/// a failure, resets the address. The number of addresses is bounded, and time is a parameter.
struct AdmissionControl {
  private struct Record {
    var failures: Int
    var lastFailure: Instant
    /// The earliest time at which the next connection is admitted.
    var next: Instant
  }

  static let freeFailures = 10
  static let firstInterval = Duration.milliseconds(50)
  static let longestInterval = Duration.seconds(2)
  /// A connection that would wait longer is closed.
  static let longestWait = Duration.seconds(10)
  static let memory = Duration.seconds(60)
  /// At this limit, the address whose last failure is oldest is dropped.
  static let addressLimit = 1024

  private var records: [String: Record] = [:]

  var addressCount: Int { records.count }

  /// How long a new connection must wait for its handshake; nil: close it.
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

  mutating func succeeded(_ address: String) { records[address] = nil }

  private func interval(_ failures: Int) -> Duration {
    guard failures > Self.freeFailures else { return .zero }
    // After six doublings the interval exceeds the longest one.
    return min(Self.firstInterval * (1 << min(failures - Self.freeFailures - 1, 6)), Self.longestInterval)
  }
}
