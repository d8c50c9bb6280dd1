package import PushTransport
package import PushWire

/// Hears what an app's lanes do, a batch at a time: the place where sending is measured.
///
/// Called on the lanes' loops, several at once, between one batch and the next: implementations synchronise themselves and return soon.
package protocol LaneObserver: Sendable {
  /// A batch was encrypted and handed to the socket.
  ///
  /// What the socket does not take at once waits in front of it, up to the link's high-water mark (1 MiB).
  func wrote(_ batch: LaneBatch)
  /// A run of notifications has its outcome. Its records can be read during the call.
  func settled(_ settlement: Settlement, ring: NotificationRing, now: Instant)
}

/// What went to the socket as one write.
package struct LaneBatch {
  package let ring: NotificationRing
  /// Where its notifications lie in the ring; among them may be some that were skipped, as expired or cancelled.
  package let positions: Range<UInt64>
  /// Notifications in it.
  package let count: Int
  /// Of the frames, before TLS.
  package let byteCount: Int
  /// All of it had been sent before, on another connection.
  package let isResend: Bool
  package let now: Instant
}
