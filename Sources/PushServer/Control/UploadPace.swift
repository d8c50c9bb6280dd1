internal import PushWire

/// Whether a request's body arrives fast enough.
///
/// A client that sends a byte now and then would otherwise hold a connection, and what it has sent
/// so far in memory, for as long as it likes: the idle time-out counts from its last byte.
struct UploadPace: Sendable {
  private let beganAt: Instant
  private let patience: Duration

  /// Below a slow mobile connection.
  static let leastBytesPerSecond = 4096

  /// - Parameter patience: the time that a body may take, beside the time for its bytes at the
  ///   lowest rate.
  init(beganAt: Instant, patience: Duration) {
    self.beganAt = beganAt
    self.patience = patience
  }

  func isTooSlow(byteCount: Int, now: Instant) -> Bool {
    now.since(beganAt) > patience + .seconds(byteCount / Self.leastBytesPerSecond)
  }
}
