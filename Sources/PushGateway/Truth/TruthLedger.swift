internal import PushTransport
internal import PushWire
internal import Synchronization

/// Adds up the counts of all connections. It takes a lock for each connection, refusal and
/// snapshot, never for each accepted frame.
final class TruthLedger: Sendable {
  private struct State {
    var closed = GroundTruth()
    /// Since the rules were set.
    var attempts: [String: Int] = [:]
    /// The connections of each topic before the rules were set.
    var earlier: [String: Int] = [:]
    var live: [Int: (topic: String, tally: ConnectionTally)] = [:]
    var connectionCount = 0
  }

  private let state = Mutex(State())

  /// Registers a connection. `number` counts all connections of the gateway, `ordinal` those of the
  /// topic since the rules were set, both from 1.
  func open(topic: String) -> (number: Int, ordinal: Int, tally: ConnectionTally) {
    let tally = ConnectionTally()
    return state.withLock { state in
      state.connectionCount += 1
      state.closed.apps[topic, default: AppTruth()].connections += 1
      state.live[state.connectionCount] = (topic, tally)
      let ordinal = (state.closed.apps[topic]?.connections ?? 1) - state.earlier[topic, default: 0]
      return (state.connectionCount, ordinal, tally)
    }
  }

  /// The rules were replaced: those for an app's first connections count from here on.
  func rulesReplaced() {
    state.withLock { state in
      state.attempts = [:]
      state.earlier = state.closed.apps.mapValues(\.connections)
    }
  }

  /// Adds the connection's final counts. A second call has no effect.
  func close(_ number: Int) {
    state.withLock { state in
      guard let (topic, tally) = state.live.removeValue(forKey: number) else { return }
      tally.add(to: &state.closed.apps[topic, default: AppTruth()])
    }
  }

  func refused(topic: String, _ refusal: Refusal) {
    change(topic) { app in
      switch refusal {
      case .status(let status): app.refused[status, default: 0] += 1
      case .probe: app.probes += 1
      case .poison: app.poisoned += 1
      }
    }
  }

  /// Counts an attempt to connect. Returns the number of attempts.
  func attempted(topic: String) -> Int {
    state.withLock { state in
      state.attempts[topic, default: 0] += 1
      return state.attempts[topic, default: 0]
    }
  }

  func change(_ topic: String, _ body: (inout AppTruth) -> Void) {
    state.withLock { body(&$0.closed.apps[topic, default: AppTruth()]) }
  }

  func handshakeFailed() { state.withLock { $0.closed.failedHandshakes += 1 } }

  func snapshot() -> GroundTruth {
    state.withLock { state in
      var truth = state.closed
      for (topic, tally) in state.live.values { tally.add(to: &truth.apps[topic, default: AppTruth()]) }
      return truth
    }
  }
}

/// The counts of an open connection. Its event loop stores them after each read; any thread may
/// read them.
final class ConnectionTally: Sendable {
  // Relaxed: no other memory depends on the counts. A reader on another thread may see some counts
  // of one read and some of the next.
  private let accepted = Atomic(0)
  private let discarded = Atomic(0)
  private let bytes = Atomic(0)

  func store(_ counts: GatewaySession.Counts) {
    accepted.store(counts.accepted, ordering: .relaxed)
    discarded.store(counts.discarded, ordering: .relaxed)
    bytes.store(counts.bytes, ordering: .relaxed)
  }

  func add(to app: inout AppTruth) {
    app.accepted += accepted.load(ordering: .relaxed)
    app.discarded += discarded.load(ordering: .relaxed)
    app.bytes += bytes.load(ordering: .relaxed)
  }
}
