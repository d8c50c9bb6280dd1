internal import PushEngine

/// Something that happened to an app's connections.
public struct DeploymentEvent: Hashable, Sendable {
  /// The ``AppConfiguration/id`` of the app.
  public let app: String
  /// What happened.
  public let kind: Kind
  /// The number of events lost before this one, because the loop that reads them was too slow.
  public let droppedCount: Int

  /// What happened. More may be added, so a `switch` needs a `default`.
  public enum Kind: Hashable, Sendable {
    /// A connection has opened.
    case connected
    /// A connection has ended, or could not be opened.
    ///
    /// - reason: nil if it had got something done, or had nothing to do.
    case connectionEnded(reason: String?)
    /// Nothing gets through. Repeated every second while it lasts; first sent after about one
    /// second.
    case waiting(Waiting)
    /// Something gets through again.
    case progressing
    /// Half of the last 200 answers or more call the device token bad (400 BadDeviceToken or
    /// DeviceTokenNotForTopic), which means a wrong environment or topic. ``stopped(reason:)``
    /// follows. Over HTTP/2 only.
    ///
    /// - reason: how many of how many answers, in one sentence.
    case breakerTripped(reason: String)
    /// A service's app was suspended for a reason that stops any other app: see
    /// ``stopped(reason:)``. It continues after ``PushApp/restart()``, ``PushApp/resume()`` or
    /// ``PushApp/replaceCredential(_:)``, and nothing is lost.
    case suspended(reason: String)
    /// ``PushApp/pause()`` was called.
    case paused
    /// The app was paused or suspended, and continues.
    case resumed
    /// The app sends nothing any more: the credential was refused, the gateway was never reached,
    /// ``AppConfiguration/patience`` is over, or the breaker has tripped:
    /// ``breakerTripped(reason:)``. ``PushApp/restart()`` and ``PushApp/replaceCredential(_:)`` let
    /// it begin anew.
    case stopped(reason: String)

    init(_ event: AppEvent) {
      self =
        switch event {
        case .connected: .connected
        case .connectionEnded(let cause): .connectionEnded(reason: cause)
        case .waiting(let obstacle): .waiting(Waiting(obstacle))
        case .progressing: .progressing
        case .breakerTripped(let reason): .breakerTripped(reason: reason)
        case .suspended(let reason): .suspended(reason: reason)
        case .paused: .paused
        case .resumed: .resumed
        case .stopped(let reason): .stopped(reason: reason)
        }
    }
  }

  /// What an app waits for.
  public struct Waiting: Hashable, Sendable {
    /// A few words, such as `503 ServiceUnavailable`. Text of the gateway's may be in it.
    public let cause: String
    /// How long it has lasted.
    public let duration: Duration
    /// When the next attempt is made; zero: one is under way; nil: none is planned.
    public let nextTryIn: Duration?
    /// A limit of the app's own makes it wait, not the gateway.
    public let isOwnLimit: Bool

    init(_ obstacle: Obstacle) {
      (cause, duration) = (obstacle.cause, obstacle.lasting)
      (nextTryIn, isOwnLimit) = (obstacle.nextTryIn, obstacle.isOwnLimit)
    }
  }
}
