internal import Carillon
internal import PushStore
internal import PushTransport
internal import PushWire
internal import Synchronization

/// What all connections of the bridge have in common that belong to one app.
final class BridgeApp: Sendable {
  private struct Client {
    /// How many of its frames were written to the store, in all processes.
    var position: Int64
    var connectionCount = 0
    /// When it last had a connection or frames.
    var lastUse = StoreInstant.now
  }

  private struct State {
    var ledger: BridgeLedger
    var links: [UInt64: BridgeLink] = [:]
    var clients: [String: Client] = [:]
    /// Where clients begin that are not in `clients`: behind all that were in it.
    var firstPosition: Int64 = 0
    var counts = BridgeCounts()
    var isHandingOutFeedback = false
  }

  let id: String
  let budget: MemoryBudget
  private let outcomes: OutcomeRecorder
  private let memory: ForwardedMemory.Limits
  private let state: Mutex<State>

  /// Called with each run that the app's clients have lines in.
  private let note: @Sendable (IntakeRunID, BridgeApp) -> Void

  /// - Parameter budget: of all memories.
  init(
    _ id: String, memory: ForwardedMemory.Limits, budget: MemoryBudget, outcomes: OutcomeRecorder,
    note: @escaping @Sendable (IntakeRunID, BridgeApp) -> Void
  ) {
    self.id = id
    self.outcomes = outcomes
    self.note = note
    self.memory = memory
    self.budget = budget
    state = Mutex(State(ledger: BridgeLedger(memory, pool: budget)))
  }

  var counts: BridgeCounts { state.withLock { $0.counts } }
  var links: [BridgeLink] { state.withLock { Array($0.links.values) } }

  func count(_ change: (inout BridgeCounts) -> Void) {
    state.withLock { change(&$0.counts) }
  }

  // MARK: Connections

  /// - Returns: what must be called afterwards, without locks; nil: there are enough.
  func add(_ link: BridgeLink, limit: Int) -> [@Sendable () -> Void]? {
    state.withLock { state in
      guard state.counts.clients < limit else { return nil }
      let count = change(link.client, &state) { client in
        client.connectionCount += 1
        return client.connectionCount
      }
      let isLess = trailLimit(connectionCount: count) < trailLimit(connectionCount: count - 1)
      let others = isLess ? state.links.values.filter { $0.client == link.client } : []
      state.links[link.id] = link
      state.counts.clients += 1
      return others.compactMap { $0.put(.sweep(trailLimit: trailLimit(connectionCount: count))) }
    }
  }

  func remove(_ link: BridgeLink) {
    state.withLock { state in
      guard state.links.removeValue(forKey: link.id) != nil else { return }
      state.counts.clients -= 1
      change(link.client, &state) { $0.connectionCount -= 1 }
    }
    link.close()
  }

  private func change<Result>(_ client: String, _ state: inout State, _ body: (inout Client) -> Result) -> Result {
    let first = state.firstPosition
    return body(&state.clients[client, default: Client(position: first)])
  }

  /// How many frames of a client's connection are kept: its connections share what it may have.
  func trailLimit(_ client: String) -> Int {
    state.withLock { trailLimit(connectionCount: $0.clients[client]?.connectionCount ?? 1) }
  }

  /// Changes seldom: with the next power of two.
  private func trailLimit(connectionCount: Int) -> Int {
    var shares = 1
    while shares < connectionCount { shares *= 2 }
    return max(64, memory.count / shares)
  }

  // MARK: Frames

  /// Whether frames of a client are remembered, which may come again.
  func remembers(_ client: String) -> Bool { state.withLock { $0.ledger.remembers(client) } }

  func recognise(
    _ digest: FrameDigest, client: String, frame: UInt64, connection: UInt64, now: Instant
  ) -> ForwardedMemory.Entry? {
    state.withLock {
      $0.ledger.recognise(digest, client: client, frame: frame, connection: connection, now: now)
    }
  }

  /// Frames were forwarded. To be called before their outcomes can come: what is written about them
  /// is durable before they are sent.
  func forwarded(_ stretches: [FrameStretch], as run: IntakeRunID, client: String, connection: UInt64) {
    note(run, self)
    state.withLock { state in
      for frames in stretches {
        state.ledger.forwarded(frames.line, count: frames.count, frame: frames.number, connection: connection)
        state.counts.forwarded += frames.count
        write(frames, client: client, connection: connection, &state)
      }
    }
  }

  /// Frames were recognised: they belong to this connection now.
  func recognised(_ stretches: [FrameStretch], client: String, connection: UInt64) {
    state.withLock { state in
      for frames in stretches { write(frames, client: client, connection: connection, &state) }
      countAlreadyDelivered(&state)
    }
  }

  /// Frames that were recognised count when their first sending is known to have been accepted.
  private func countAlreadyDelivered(_ state: inout State) {
    let count = state.ledger.takeAlreadyDelivered()
    guard count > 0 else { return }
    state.counts.alreadyDelivered += count
    outcomes.change { $0.alreadyDelivered[id, default: 0] += count }
  }

  private func write(_ frames: FrameStretch, client: String, connection: UInt64, _ state: inout State) {
    let now = StoreInstant.now
    let position = change(client, &state) { client in
      client.lastUse = now
      defer { client.position += Int64(frames.count) }
      return client.position
    }
    let entry = ForwardedFrames(
      app: id, client: client, position: position, connection: connection, firstFrame: frames.number,
      run: StoredRunID(high: frames.line.high, low: frames.line.low), firstLine: frames.line.line,
      digests: frames.digests.bytes, at: now)
    outcomes.change { changes in
      changes.countLimit = memory.count
      changes.add(entry)
    }
  }

  /// An outcome of lines of a run was heard. Calls of what is returned wake the connections.
  func answered(_ lines: [UInt64], of run: IntakeRunID, _ answer: FrameAnswer) -> [@Sendable () -> Void] {
    state.withLock { state in
      var wakes: [@Sendable () -> Void] = []
      // Neighbours mostly belong to one connection.
      var messages: [BridgeLink.Message] = []
      var connection: UInt64?
      func put() {
        guard let id = connection, let wake = state.links[id]?.put(messages) else { return }
        wakes.append(wake)
      }
      for neighbours in lines.neighbours {
        let line = ForwardedLine(run, line: UInt32(truncatingIfNeeded: neighbours.lowerBound))
        for delivery in state.ledger.answered(line, count: neighbours.count, answer, now: .now) {
          if delivery.connection != connection {
            put()
            messages.removeAll(keepingCapacity: true)
            connection = delivery.connection
          }
          messages.append(.answer(frame: delivery.frame, count: delivery.count, answer))
        }
      }
      put()
      countAlreadyDelivered(&state)
      return wakes
    }
  }

  // MARK: Ends

  /// A connection has ended, and what is left of it may come again; see ``BridgeLedger/remember``.
  func remember(
    _ frames: [(number: UInt64, frame: BridgeTrail.Frame)], client: String, now: Instant
  ) -> [UInt64] {
    state.withLock { $0.ledger.remember(frames, client: client, now: now) }
  }

  func forget(_ frames: [(number: UInt64, frame: BridgeTrail.Frame)]) {
    state.withLock { $0.ledger.forget(frames) }
  }

  /// Writes how a connection ended.
  func ended(_ connection: UInt64, from frame: UInt64?) {
    outcomes.change { $0.ended.append(EndedConnection(connection: connection, from: frame, at: .now)) }
  }

  // MARK: Earlier processes

  /// - Parameter time: of the answer.
  func restore(_ digest: FrameDigest, _ entry: ForwardedMemory.Entry, client: String, at time: Instant) {
    state.withLock { $0.ledger.restore(digest, entry, client: client, at: time) }
  }

  func restore(position: Int64, client: String) {
    state.withLock { state in change(client, &state) { $0.position = max(position, $0.position) } }
  }

  // MARK: Age

  /// Forgets what is too old, of clients that are connected and of those that never come back.
  ///
  /// - Returns: what must be called afterwards, without locks.
  func sweep(now: Instant) -> [@Sendable () -> Void] {
    state.withLock { state in
      state.ledger.sweep(now: now)
      let oldest = StoreInstant.now.milliseconds - memory.age.components.seconds * 1000
      for (name, client) in state.clients {
        guard client.connectionCount == 0, client.lastUse.milliseconds < oldest, !state.ledger.remembers(name) else {
          continue
        }
        state.firstPosition = max(state.firstPosition, client.position)
        state.clients[name] = nil
      }
      return state.links.values.compactMap { link in
        let count = state.clients[link.client]?.connectionCount ?? 1
        return link.put(.sweep(trailLimit: trailLimit(connectionCount: count)))
      }
    }
  }

  // MARK: Feedback

  /// False: another client is being served.
  func beginFeedback() -> Bool {
    state.withLock { state in
      defer { state.isHandingOutFeedback = true }
      return !state.isHandingOutFeedback
    }
  }

  func endFeedback(_ count: Int) {
    state.withLock { state in
      state.isHandingOutFeedback = false
      state.counts.feedback += count
    }
  }
}

extension ForwardedLine {
  init(_ run: IntakeRunID, line: UInt32) { self.init(high: run.high, low: run.low, line: line) }
}

extension [UInt64] {
  /// Stretches of numbers of which each is the next one.
  fileprivate var neighbours: [Range<UInt64>] {
    var ranges: [Range<UInt64>] = []
    var start = startIndex
    while start < endIndex {
      var end = start + 1
      while end < endIndex, self[end] == self[end - 1] + 1 { end += 1 }
      ranges.append(self[start]..<(self[end - 1] + 1))
      start = end
    }
    return ranges
  }
}
