package import PushStore

/// The bridge's counts of one app since the service began.
package struct BridgeCounts: Hashable, Sendable {
  /// Connected now.
  package var clients = 0
  /// Frames that arrived, without those behind a conclusion.
  package var frames = 0
  /// Frames that the app has accepted.
  package var forwarded = 0
  /// Frames that had been forwarded before, and were not sent twice.
  package var alreadyDelivered = 0
  /// When that was known of the last of them. Nil: there was none.
  package var lastAlreadyDelivered: StoreInstant?
  /// Error responses, by status.
  package var responses: [UInt8: Int] = [:]
  /// Connections that were closed without an error response because a frame of command 0 failed.
  package var silentCloses = 0
  /// Devices that the feedback service has handed out.
  package var feedback = 0

  package init() {}
}
