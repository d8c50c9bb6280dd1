/// An event of an app's connections, for observers. A few a second at most, except when connections
/// open and close faster.
package enum AppEvent: Hashable, Sendable {
  case connected
  /// - cause: nil if the connection got something done, or was idle.
  case connectionEnded(cause: String?)
  /// Nothing gets through. Repeated each second while that lasts.
  case waiting(Obstacle)
  /// Something gets through again.
  case progressing
  /// Too many answers call the device token bad, which means a wrong environment or topic. The
  /// reason is one sentence with their number. ``stopped(reason:)`` or ``suspended(reason:)``
  /// follows.
  case breakerTripped(reason: String)
  /// The app sends nothing until it is resumed, or gets another credential. The reason is one
  /// sentence.
  case suspended(reason: String)
  /// The app's operator has paused it.
  case paused
  /// The app was suspended or paused, and continues.
  case resumed
  /// The app sends nothing any more. The reason is one sentence.
  case stopped(reason: String)
}
