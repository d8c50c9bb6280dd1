internal import Carillon
internal import PushStore
internal import PushTransport
internal import PushWire
internal import Synchronization

/// What all connections of the bridge have in common that belong to one app.
package final class BridgeApp: Sendable {
  private struct Client {
    /// How many of its frames were written to the store, in all processes.
    var position: Int64
    var connectionCount = 0
    /// When it last had a connection or frames.
    var lastUse: StoreInstant
  }

  private struct State {
    var ledger: BridgeLedger
    var links: [UInt64: BridgeLink] = [:]
    /// How connections have ended whose clients may not have read it yet.
    var unread: [UInt64: EndedConnection] = [:]
    var clients: [String: Client] = [:]
    /// Where clients begin that are not in `clients`: behind all that were in it.
    var firstPosition: Int64 = 0
    var counts = BridgeCounts()
    var isHandingOutFeedback = false
  }

  package let id: String
  let budget: MemoryBudget
  private let outcomes: OutcomeRecorder
  var clock: any ServiceClock { outcomes.clock }
  private let memory: ForwardedMemory.Limits
  private let state: Mutex<State>

  /// Whether the store keeps what it forwards, for other nodes.
  let isShared = Atomic<Bool>(false)
  /// Called with each run that the app's clients have lines in.
  private let note: @Sendable (IntakeRunID, BridgeApp) -> Void

  /// - Parameter budget: of all memories.
  init(
    _ id: String, memory: ForwardedMemory.Limits, budget: MemoryBudget, outcomes: OutcomeRecorder,
    note: @escaping @Sendable (IntakeRunID, BridgeApp) -> Void
  ) {
    (self.id, self.outcomes, self.note, self.memory, self.budget) = (id, outcomes, note, memory, budget)
    state = Mutex(State(ledger: BridgeLedger(memory, pool: budget)))
  }

  var counts: BridgeCounts { state.withLock { $0.counts } }

  /// Every connection gets the message.
  func tell(_ message: BridgeLink.Message) {
    for link in state.withLock({ Array($0.links.values) }) { link.put(message)?() }
  }

  func count(_ change: (inout BridgeCounts) -> Void) { state.withLock { change(&$0.counts) } }

  // MARK: Connections

  /// - Returns: what must be called afterwards, without locks; nil: there are enough.
  func add(_ link: BridgeLink, limit: Int, now: Instant) -> [@Sendable () -> Void]? {
    state.withLock { state in
      guard state.counts.clients < limit else { return nil }
      let count = change(link.client, &state) { client in
        client.connectionCount += 1
        return client.connectionCount
      }
      let isLess = trailLimit(connectionCount: count) < trailLimit(connectionCount: count - 1)
      let others = isLess ? state.links.values.filter { $0.client == link.client } : []
      state.links[link.id] = link
      state.ledger.opened(link.id, client: link.client, now: now)
      forgetEnds(&state)
      state.counts.clients += 1
      return others.compactMap { $0.put(.sweep(trailLimit: trailLimit(connectionCount: count))) }
    }
  }

  func remove(_ link: BridgeLink) {
    state.withLock { state in
      guard state.links.removeValue(forKey: link.id) != nil else { return }
      state.counts.clients -= 1
      change(link.client, &state) { $0.connectionCount -= 1 }
      if let ended = state.unread.removeValue(forKey: link.id) { outcomes.change { $0.bridge.ended.append(ended) } }
    }
    link.close()
  }

  private func change<Result>(_ client: String, _ state: inout State, _ body: (inout Client) -> Result) -> Result {
    let (first, now) = (state.firstPosition, clock.now)
    return body(&state.clients[client, default: Client(position: first, lastUse: now)])
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
    state.withLock { state in
      defer { forgetEnds(&state) }
      return state.ledger.recognise(digest, client: client, frame: frame, connection: connection, now: now)
    }
  }

  /// The first frame of a connection has not come before; see ``BridgeLedger/goesOn(_:client:)``.
  ///
  /// - Returns: whether frames of the client are still remembered.
  func goesOn(_ connection: UInt64, client: String) -> Bool {
    state.withLock { state in
      state.ledger.goesOn(connection, client: client)
      forgetEnds(&state)
      return state.ledger.remembers(client)
    }
  }

  /// The service listens now.
  func begins(now: Instant) { state.withLock { $0.ledger.renew(now: now) } }

  /// Frames were forwarded. To be called before their outcomes can come: what is written about them
  /// is durable before they are sent.
  func forwarded(_ stretches: [FrameStretch], as run: IntakeRunID, client: String, connection: UInt64) {
    note(run, self)
    state.withLock { state in
      for frames in stretches {
        state.ledger.forwarded(frames.line, count: frames.count, frame: frames.number, connection: connection)
        state.counts.forwarded += frames.count
        write(frames, client: client, connection: connection, isRecognised: false, &state)
      }
    }
  }

  /// Before ``forwarded(_:as:client:connection:)``, if the app is shared.
  func keep(_ run: IntakeRunID, from first: UInt32, _ notifications: [(PreparedNotification, DeviceToken)]) {
    outcomes.keep(run, from: first, app: id, notifications, isBridge: true)
  }

  /// Frames are in the journal.
  ///
  /// - Parameter body: called when nothing can lose them: if the app is shared, the store has them.
  func whenSafe(isShared: Bool, _ body: @escaping @Sendable () -> Void) {
    if isShared { outcomes.whenStored(body) } else { body() }
  }

  /// Frames were recognised: they belong to this connection now.
  func recognised(_ stretches: [FrameStretch], client: String, connection: UInt64) {
    state.withLock { state in
      for frames in stretches { write(frames, client: client, connection: connection, isRecognised: true, &state) }
      countAlreadyDelivered(&state)
    }
  }

  /// Frames that were recognised count when their first sending is known to have been accepted.
  private func countAlreadyDelivered(_ state: inout State) {
    let count = state.ledger.takeAlreadyDelivered()
    guard count > 0 else { return }
    let now = clock.now
    state.counts.alreadyDelivered += count
    state.counts.lastAlreadyDelivered = now
    outcomes.change { $0.bridge.addAlreadyDelivered(count, app: id, at: now) }
  }

  private func write(
    _ frames: FrameStretch, client: String, connection: UInt64, isRecognised: Bool, _ state: inout State
  ) {
    let now = clock.now
    let position = change(client, &state) { client in
      client.lastUse = now
      defer { client.position += Int64(frames.count) }
      return client.position
    }
    let entry = ForwardedFrames(
      app: id, client: client, position: position, connection: connection, firstFrame: frames.number,
      run: StoredRunID(high: frames.line.high, low: frames.line.low), firstLine: frames.line.line,
      digests: frames.digests.bytes, at: now, isRecognised: isRecognised)
    outcomes.change { changes in
      changes.bridge.countLimit = memory.count
      changes.bridge.add(entry)
    }
  }

  /// An outcome of lines of a run was heard. Calls of what is returned wake the connections.
  func answered(_ lines: [UInt64], of run: IntakeRunID, _ answer: FrameAnswer) -> [@Sendable () -> Void] {
    let now = clock.uptime
    return state.withLock { state in
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
        for delivery in state.ledger.answered(line, count: neighbours.count, answer, now: now) {
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

  /// A connection has ended. How it ended is written.
  ///
  /// - Parameter isRead: false: that waits until the client has closed it. If the process is killed
  ///   before, an error response may be lost, and for the client the connection broke.
  /// - Returns: see ``BridgeLedger/ended(_:_:_:client:now:)``.
  func ended(
    _ link: BridgeLink, _ end: BridgeEnd, _ remainder: BridgeRemainder, isRead: Bool, now: Instant
  ) -> [UInt64] {
    state.withLock { state in
      let ended = EndedConnection(
        connection: link.id, from: remainder.from, recentFrom: remainder.recentFrom, at: clock.now)
      if isRead { outcomes.change { $0.bridge.ended.append(ended) } } else { state.unread[link.id] = ended }
      defer { forgetEnds(&state) }
      return state.ledger.ended(link.id, end, remainder, client: link.client, now: now)
    }
  }

  func remember(_ frames: BridgeRemainder.Frames, _ end: BridgeEnd, _ link: BridgeLink, now: Instant) -> [UInt64] {
    state.withLock { $0.ledger.remember(frames, end, client: link.client, connection: link.id, now: now) }
  }

  /// A connection is gone, and its client may not have read the error response.
  ///
  /// - Parameter remainder: what it sends again in this case.
  func mayNotHaveRead(_ link: BridgeLink, _ end: BridgeEnd, _ remainder: BridgeRemainder, now: Instant) {
    state.withLock { state in
      // It has: its next connection has shown that.
      guard state.unread[link.id] != nil else { return }
      state.unread[link.id]?.recentFrom = remainder.recentFrom
      _ = state.ledger.remember(remainder.again, end, client: link.client, connection: link.id, now: now)
    }
  }

  /// Writes which connections' frames do not come again any more.
  private func forgetEnds(_ state: inout State) {
    let forgotten = state.ledger.takeForgotten()
    guard !forgotten.isEmpty else { return }
    for connection in forgotten { state.unread[connection] = nil }
    outcomes.change { changes in
      for connection in forgotten {
        changes.bridge.ended.append(EndedConnection(connection: connection, from: nil, recentFrom: nil, at: clock.now))
      }
    }
  }

  // MARK: Earlier processes

  /// Another node may have had the clients meanwhile.
  func forget() {
    state.withLock { state in
      state.ledger = BridgeLedger(memory, pool: budget)
      (state.clients, state.unread) = ([:], [:])
    }
  }

  func restore(_ frame: BridgeRecovery.Frame, as line: ForwardedLine, isByResponse: Bool, now: Instant) {
    state.withLock { $0.ledger.restore(frame, as: line, isByResponse: isByResponse, now: now) }
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
      forgetEnds(&state)
      let oldest = clock.now.milliseconds - memory.age.components.seconds * 1000
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
  package func beginFeedback() -> Bool { state.withLock { !exchange(&$0.isHandingOutFeedback, with: true) } }

  package func endFeedback(_ count: Int) {
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
