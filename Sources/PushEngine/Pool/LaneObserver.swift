package import PushTransport
package import PushWire

/// Observes what an app's lanes do, one batch at a time. Used to measure sending.
///
/// Called on the lanes' loops, on several at once, between two batches. Implementations synchronise
/// themselves and return soon.
package protocol LaneObserver: Sendable {
  /// A batch was encrypted and passed to the socket.
  ///
  /// What the socket does not take at once waits in the link, up to its high-water mark (1 MiB).
  func wrote(_ batch: LaneBatch)
  /// A run of notifications has its outcome. Its records can be read during the call.
  func settled(_ settlement: Settlement, ring: NotificationRing, now: Instant)
}

/// A batch of notifications that were passed to the socket as one write.
package struct LaneBatch {
  package let ring: NotificationRing
  /// Where its notifications lie in the ring. Some in this range may have been skipped, as expired
  /// or cancelled.
  package let positions: Range<UInt64>
  /// The number of its notifications.
  package let count: Int
  /// The frames' bytes, before TLS.
  package let byteCount: Int
  /// All of it had been sent before, on another connection.
  package let isResend: Bool
  package let now: Instant
}
