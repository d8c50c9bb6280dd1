/// What happens to an app's connections, for whoever watches it. A few a second at most, except where
/// connections come and go faster.
package enum AppEvent: Hashable, Sendable {
  case connected
  /// - cause: nil if it had got something done, or had nothing to do.
  case connectionEnded(cause: String?)
  /// Nothing gets through. Told again each second while that lasts.
  case waiting(Obstacle)
  /// Something gets through again.
  case progressing
  /// Too many answers call the device token bad, which means a wrong environment or topic: how many,
  /// in one sentence. ``stopped(reason:)`` follows.
  case breakerTripped(reason: String)
  /// It sends nothing any more: why, in one sentence.
  case stopped(reason: String)
}
