internal import PushTransport
internal import PushWire

/// One slot of an app's pool: a ring, at most one live connection, and the machine that decides for both. Bound to one event loop.
///
/// A lane outlives its connections; the ring holds what is not settled yet. ``BinaryLane`` and ``RequestLane`` differ in what they say to the gateway; nobody above knows
/// which one it is. What they have in common is in ``SettlementRecorder``, ``LaneIdle`` and ``IntentGate``. Asked once per chunk, never once per notification.
protocol Lane: Actor {
  nonisolated var ring: NotificationRing { get }
  nonisolated var loop: any Loop { get }
  nonisolated var shared: AppShared { get }
  /// How much it takes ahead of what it has sent.
  nonisolated var backlog: BacklogGauge { get }
  /// The lane's number in the journal, if there is one.
  nonisolated var journalNumber: UInt64? { get }

  /// The app lets this lane connect.
  func connect()
  /// Closes the connection for good. What is still in the window then counts by the app's policy.
  func shutDown()
  /// Asks the machine what to do, and does it, in this lane's turn (``Loop/takeTurn(_:)``).
  func requestPump()
  /// Takes itself out of the pool, if its ring is empty.
  func retire()
  /// The time has come that ``LaneIdle`` was to wait for.
  func timerFired()
}

/// What the app's actor hears of a lane.
enum LaneEvent: Sendable {
  case wantsConnection(any Lane)
  /// A connection has opened.
  ///
  /// - isFirst: the lane had none before.
  case opened(isFirst: Bool)
  case ended(PoolMachine.Ending)
  /// Its connection was refused something, and no other lane has one that waits for work.
  case lacksSpare
  /// The app makes no progress, and must look at that at this moment; see ``AppStatus``.
  case troubled(checkAt: Instant)
  case starved
  /// It has left its connection, since there was nothing to do.
  case idled(any Lane)
  /// It was to go, but has got something to do.
  case stayed
}

extension Lane {
  /// Something was published, or has changed that the machine should know of. From any thread.
  nonisolated func wake() {
    loop.execute { self.assumeIsolated { $0.requestPump() } }
  }

  /// To be called after a claim was published: wakes the lane only if it sleeps.
  nonisolated func published() {
    if ring.takeWakeUp() { wake() }
  }
}

extension Lane {
  /// It has a connection and nothing to send over it.
  nonisolated var isSpare: Bool { backlog.isConnected && ring.published == ring.settled }

  /// Closes the ring, so that whoever has just chosen it finds no room in it and looks for another.
  ///
  /// - Returns: false: somebody was faster, and it stays.
  func retireRing() -> Bool {
    shared.scheduler.remove(self)
    if ring.retire() {
      if let journalNumber { shared.journal?.retired(lane: journalNumber) }
      return true
    }
    shared.scheduler.add(self)
    return false
  }
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
