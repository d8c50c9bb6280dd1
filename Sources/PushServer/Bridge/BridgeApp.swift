internal import Carillon
internal import PushStore
internal import PushTransport
internal import PushWire
internal import Synchronization

/// What all connections of the bridge have in common that belong to one app.
final class BridgeApp: Sendable {
  private struct State {
    var ledger: BridgeLedger
    var links: [UInt64: BridgeLink] = [:]
    /// How many frames of each client were written to the store, in all processes.
    var positions: [String: Int64] = [:]
    var counts = BridgeCounts()
    var isHandingOutFeedback = false
  }

  let id: String
  private let book: OutcomeBook
  private let memory: ForwardedMemory.Limits
  private let state: Mutex<State>

  /// Called with each run that the app's clients have lines in.
  private let note: @Sendable (IntakeRunID, BridgeApp) -> Void

  init(
    _ id: String, memory: ForwardedMemory.Limits, book: OutcomeBook,
    note: @escaping @Sendable (IntakeRunID, BridgeApp) -> Void
  ) {
    self.id = id
    self.book = book
    self.note = note
    self.memory = memory
    state = Mutex(State(ledger: BridgeLedger(memory)))
  }

  var counts: BridgeCounts { state.withLock { $0.counts } }
  var links: [BridgeLink] { state.withLock { Array($0.links.values) } }

  func count(_ change: (inout BridgeCounts) -> Void) {
    state.withLock { change(&$0.counts) }
  }

  // MARK: Connections

  /// False: there are enough.
  func add(_ link: BridgeLink, limit: Int) -> Bool {
    state.withLock { state in
      guard state.counts.clients < limit else { return false }
      state.links[link.id] = link
      state.counts.clients += 1
      return true
    }
  }

  func remove(_ link: BridgeLink) {
    state.withLock { state in
      if state.links.removeValue(forKey: link.id) != nil { state.counts.clients -= 1 }
    }
    link.close()
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
  ///
  /// - Parameter count: those of them that had not failed.
  func recognised(_ stretches: [FrameStretch], count: Int, client: String, connection: UInt64) {
    state.withLock { state in
      state.counts.alreadyDelivered += count
      for frames in stretches { write(frames, client: client, connection: connection, &state) }
    }
    guard count > 0 else { return }
    book.change { $0.alreadyDelivered[id, default: 0] += count }
  }

  private func write(_ frames: FrameStretch, client: String, connection: UInt64, _ state: inout State) {
    let position = state.positions[client, default: 0]
    state.positions[client] = position + Int64(frames.count)
    let entry = ForwardedFrames(
      app: id, client: client, position: position, connection: connection, firstFrame: frames.number,
      run: StoredRunID(high: frames.line.high, low: frames.line.low), firstLine: frames.line.line,
      digests: frames.digests.bytes, at: .now)
    book.change { changes in
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
        for delivery in state.ledger.answered(line, count: neighbours.count, answer) {
          if delivery.connection != connection {
            put()
            messages.removeAll(keepingCapacity: true)
            connection = delivery.connection
          }
          messages.append(.answer(frame: delivery.frame, count: delivery.count, answer))
        }
      }
      put()
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
    book.change { $0.ended.append(EndedConnection(connection: connection, from: frame, at: .now)) }
  }

  // MARK: Earlier processes

  func restore(_ digest: FrameDigest, _ entry: ForwardedMemory.Entry, client: String, now: Instant) {
    state.withLock { $0.ledger.restore(digest, entry, client: client, now: now) }
  }

  func restore(position: Int64, client: String) {
    state.withLock { $0.positions[client] = max(position, $0.positions[client] ?? 0) }
  }

  // MARK: Feedback

  /// False: somebody else is being served.
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
