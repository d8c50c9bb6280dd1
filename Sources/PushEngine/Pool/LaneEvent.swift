internal import PushTransport
internal import PushWire

/// What a lane reports to the app's actor.
enum LaneEvent: Sendable {
  case wantsConnection(Lane)
  /// A connection has opened.
  ///
  /// - isFirst: the lane's first connection.
  case opened(isFirst: Bool)
  /// - cause: for messages.
  case ended(PoolMachine.Ending, cause: String)
  /// The breaker on bad tokens has tripped, or the app was stopped, suspended, paused or resumed.
  case app(AppEvent)
  /// A notification on the lane's connection was refused, and no other lane has a spare connection.
  case lacksSpare
  /// There may be as many lanes.
  case limited(Int)
  /// The app makes no progress and must check again at this moment; see ``AppStatus``.
  case troubled(checkAt: Instant)
  case starved
  /// It has closed its connection because it was idle.
  case idled(Lane)
  /// It was asked to retire, but has new work.
  case stayed
  /// It was taken back, its ring is empty, and its connection has ended.
  case left(Lane)
}

extension LinkClosure {
  /// What the closure means for the notifications in flight.
  var forLane: LaneClosure {
    switch self {
    case .byPeer, .truncated, .reset, .failed, .unreachable, .handshakeFailed: .silent
    case .byUs: .byUs
    case .credentialRefused: .nothingWasRead
    }
  }

  /// The cause, for messages.
  var cause: String {
    switch self {
    case .byPeer, .truncated: "the gateway closed the connection without an answer"
    case .byUs: "the connection was closed without an answer"
    case .reset: "the connection was reset"
    case .unreachable(let text), .handshakeFailed(let text), .credentialRefused(let text), .failed(let text): text
    }
  }

  /// How much ``cause`` says.
  var evidence: ProgressWatchdog.Evidence {
    switch self {
    case .byPeer, .truncated, .byUs, .reset: .ending
    case .unreachable, .handshakeFailed, .failed: .failure
    case .credentialRefused: .answer
    }
  }

  /// The same closure on a connection that has worked. There, an alert about the certificate does
  /// not prove that the certificate is bad. If it has been revoked, the next connection is refused
  /// at once.
  var onWorkingConnection: LinkClosure {
    if case .credentialRefused(let text) = self { .failed(text) } else { self }
  }

  /// What the closure means for the pool.
  ///
  /// - Parameter failures: consecutive connections, including this one, that got nothing done.
  func ending(failures: Int) -> PoolMachine.Ending {
    switch self {
    case .unreachable(let text), .handshakeFailed(let text): .unreachable(text)
    case .credentialRefused(let text): .refused(text)
    case .byPeer, .truncated, .byUs, .reset, .failed: failures == 0 ? .ordinary : .fruitless
    }
  }
}
