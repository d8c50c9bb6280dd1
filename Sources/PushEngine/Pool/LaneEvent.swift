internal import PushTransport
internal import PushWire

/// What the app's actor hears of a lane.
enum LaneEvent: Sendable {
  case wantsConnection(Lane)
  /// A connection has opened.
  ///
  /// - isFirst: the lane had none before.
  case opened(isFirst: Bool)
  /// - cause: for people.
  case ended(PoolMachine.Ending, cause: String)
  /// The breaker on bad tokens has tripped; ``stopped(_:)`` follows.
  case breakerTripped(String)
  /// The app sends nothing any more.
  case stopped(String)
  /// Its connection was refused something, and no other lane has one that waits for work.
  case lacksSpare
  /// The app makes no progress, and must check that at this moment; see ``AppStatus``.
  case troubled(checkAt: Instant)
  case starved
  /// It has left its connection, since there was nothing to do.
  case idled(Lane)
  /// It was to go, but has got something to do.
  case stayed
}

extension LinkClosure {
  /// What it says about the notifications that were sent.
  var forLane: LaneClosure {
    switch self {
    case .byPeer, .truncated, .reset, .failed, .unreachable, .handshakeFailed: .silent
    case .byUs: .byUs
    case .credentialRefused: .nothingWasRead
    }
  }

  /// What it says to people.
  var cause: String {
    switch self {
    case .byPeer, .truncated: "the gateway closed the connection without an answer"
    case .byUs: "the connection was closed without an answer"
    case .reset: "the connection was reset"
    case .unreachable(let text), .handshakeFailed(let text), .credentialRefused(let text), .failed(let text): text
    }
  }

  /// The same on a connection that has worked: an alert about the certificate is no verdict on it
  /// there. If the certificate has been withdrawn, the next connection is refused at once.
  var onWorkingConnection: LinkClosure {
    if case .credentialRefused(let text) = self { .failed(text) } else { self }
  }

  /// What it says to the pool.
  ///
  /// - Parameter failures: connections in a row, up to this one, that got nothing done.
  func ending(failures: Int) -> PoolMachine.Ending {
    switch self {
    case .unreachable(let text), .handshakeFailed(let text): .unreachable(text)
    case .credentialRefused(let text): .refused(text)
    case .byPeer, .truncated, .byUs, .reset, .failed: failures == 0 ? .ordinary : .fruitless
    }
  }
}
