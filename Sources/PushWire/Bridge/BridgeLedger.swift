/// Who waits for the outcomes of what one app's bridge has forwarded: a frame of a connection, or
/// the memory of a client that may send it again.
package struct BridgeLedger: Sendable {
  /// An answer for neighbouring frames.
  package struct Delivery: Hashable, Sendable {
    package var connection: UInt64
    /// The first.
    package var frame: UInt64
    package var count = 1
    package var answer: FrameAnswer
  }

  private enum Waiting {
    /// A frame that the client has sent again and that was recognised.
    case frame(UInt64, connection: UInt64)
    case memory(client: String, FrameDigest)
    /// It was recognised, and its connection has ended without an error response.
    case nobody
  }

  /// The connections of one client that may still send frames.
  private struct Connections {
    /// How many error responses the client's connections had got when each of these began.
    var open: [UInt64: Int] = [:]
    var responseCount = 0
  }

  private struct Client {
    var memory: ForwardedMemory
    /// Connections that ended with an error response, and whose frames are in the memory.
    var sources: Set<UInt64> = []
  }

  let limits: ForwardedMemory.Limits
  private let pool: (any MemoryPool)?
  /// Lines of frames that were forwarded on the connection that waits for them.
  private var fresh = WaitingLines()
  /// What waits for all other lines.
  private var waiting: [ForwardedLine: Waiting] = [:]
  private var clients: [String: Client] = [:]
  private var connections: [String: Connections] = [:]
  /// See ``takeForgotten()``.
  private var forgotten: [UInt64] = []

  /// Frames that were recognised and whose first sending was accepted; see
  /// ``takeAlreadyDelivered()``.
  private var alreadyDelivered = 0

  /// - Parameter pool: of all memories; nil: they are bounded by their numbers only.
  package init(_ limits: ForwardedMemory.Limits = ForwardedMemory.Limits(), pool: (any MemoryPool)? = nil) {
    (self.limits, self.pool) = (limits, pool)
  }

  /// Lines whose outcome a connection waits for.
  package var waitingCount: Int { fresh.count + waiting.count }

  /// A frame was forwarded. To be called before its outcome can come.
  ///
  /// - Parameter count: it and its neighbours, of which each is the next line and the next frame.
  package mutating func forwarded(_ line: ForwardedLine, count: Int = 1, frame: UInt64, connection: UInt64) {
    fresh.add(line, count: count, frame: frame, connection: connection)
  }

  /// Something that the client may send again.
  ///
  /// - Parameter source: the connection, if it ended with an error response.
  mutating func restore(_ digest: FrameDigest, _ entry: ForwardedMemory.Entry, client: String, source: UInt64?) {
    if entry.answer == nil {
      _ = fresh.take(entry.line)
      waiting[entry.line] = .memory(client: client, digest)
    }
    let empty = Client(memory: ForwardedMemory(limits, pool: pool))
    drop(clients[client, default: empty].memory.remember(digest, entry))
    if let source { clients[client]?.sources.insert(source) }
  }

  /// Whether anything of this client's may come again.
  package func remembers(_ client: String) -> Bool { clients[client] != nil }

  /// A frame that was forwarded before, for an earlier connection of the client. If it has no
  /// answer yet, that goes to this frame.
  package mutating func recognise(
    _ digest: FrameDigest, client: String, frame: UInt64, connection: UInt64, now: Instant
  ) -> ForwardedMemory.Entry? {
    // In place: a copy would cost as much as the memory is large.
    let entry = clients[client]?.memory.take(digest, now: now)
    if entry?.until != nil { clients[client]?.memory.resendBegins(connection) }
    forgetIfEmpty(client)
    switch entry?.answer {
    case .accepted?: alreadyDelivered += 1
    case .refused?: break
    case nil: if let entry { waiting[entry.line] = .frame(frame, connection: connection) }
    }
    return entry
  }

  /// Frames that were recognised and whose first sending is known to have been accepted, since the
  /// last call.
  package mutating func takeAlreadyDelivered() -> Int { exchange(&alreadyDelivered, with: 0) }

  /// Neighbouring lines have the same outcome.
  ///
  /// - Parameter line: the first.
  package mutating func answered(
    _ line: ForwardedLine, count: Int, _ answer: FrameAnswer, now: @autoclosure () -> Instant
  ) -> [Delivery] {
    let parts = fresh.take(line, count: count)
    var deliveries = parts.map {
      Delivery(connection: $0.connection, frame: $0.firstFrame, count: $0.count, answer: answer)
    }
    guard !waiting.isEmpty else { return deliveries }
    let now = now()
    var offset = 0
    for part in parts {
      deliveries += (offset..<part.offset).compactMap { answeredAgain(line.advanced(by: $0), answer, now) }
      offset = part.offset + part.count
    }
    return deliveries + (offset..<count).compactMap { answeredAgain(line.advanced(by: $0), answer, now) }
  }

  /// A line that was forwarded on a connection that has ended.
  private mutating func answeredAgain(_ line: ForwardedLine, _ answer: FrameAnswer, _ now: Instant) -> Delivery? {
    switch waiting.removeValue(forKey: line) {
    case .frame(let frame, let connection)?:
      if answer == .accepted { alreadyDelivered += 1 }
      return Delivery(connection: connection, frame: frame, answer: answer)
    case .memory(let client, let digest)?:
      clients[client]?.memory.answered(line, digest, answer, now: now)
      return nil
    case .nobody?:
      if answer == .accepted { alreadyDelivered += 1 }
      return nil
    case nil: return nil
    }
  }

  // MARK: Connections

  /// A connection of a client begins. While it has sent nothing, what an error response called
  /// discarded may still come on it: perhaps nothing is read from it yet.
  package mutating func opened(_ connection: UInt64, client: String, now: Instant) {
    drop(clients[client]?.memory.sweep(now: now) ?? [])
    forgetIfEmpty(client)
    if clients[client]?.memory.hasEntriesBehindResponse == true { clients[client]?.memory.resendBegins(connection) }
    connections[client, default: Connections()].open[connection] = connections[client]?.responseCount ?? 0
  }

  /// The first frame of a connection that is forwarded has not come before. What an error response
  /// called discarded does not come any more if this is the connection on which it would have come:
  /// the client's only one, and begun after the response.
  package mutating func goesOn(_ connection: UInt64, client: String) {
    clients[client]?.memory.resendEnds(connection)
    guard let known = connections[client], known.open.count == 1, known.open[connection] == known.responseCount,
      clients[client]?.memory.hasEntriesBehindResponse == true
    else { return }
    drop(clients[client]?.memory.dropBehindResponse() ?? [])
    forgetIfEmpty(client)
  }

  /// A connection has ended.
  ///
  /// - Returns: frames whose answer is on its way to the connection. They are to be handed over
  ///   again with it, by ``remember(_:_:client:connection:now:)``.
  package mutating func ended(
    _ connection: UInt64, _ end: BridgeEnd, _ remainder: BridgeRemainder, client: String, now: Instant
  ) -> [UInt64] {
    connections[client]?.open[connection] = nil
    if connections[client]?.open.isEmpty == true {
      connections[client] = nil
    } else if end.isByResponse {
      connections[client]?.responseCount += 1
    }
    if clients[client]?.memory.resendEnds(connection) == true { clients[client]?.memory.renew(now: now) }
    forget(remainder.others)
    return remember(remainder.again, end, client: client, connection: connection, now: now)
  }

  package mutating func remember(
    _ frames: BridgeRemainder.Frames, _ end: BridgeEnd, client: String, connection: UInt64, now: Instant
  ) -> [UInt64] {
    let until = end.isByResponse ? now + limits.quietTime : nil
    var underway: [UInt64] = []
    for (number, frame) in frames {
      guard let line = frame.line else { continue }
      let isWaiting = waiting[line] != nil || fresh.contains(line)
      guard isWaiting || frame.answer != nil else {
        underway.append(number)
        continue
      }
      let entry = ForwardedMemory.Entry(
        line: line, answer: isWaiting ? nil : frame.answer, answeredAt: frame.answeredAt, until: until)
      restore(frame.digest, entry, client: client, source: until == nil ? nil : connection)
    }
    return underway
  }

  private mutating func forget(_ frames: BridgeRemainder.Frames) {
    for (_, frame) in frames {
      guard frame.answer == nil, let line = frame.line, fresh.take(line).isEmpty else { continue }
      if case .frame? = waiting[line] { waiting[line] = .nobody }
    }
  }

  /// The service listens: what an error response of an earlier process called discarded can come
  /// from now on.
  package mutating func renew(now: Instant) {
    for client in Array(clients.keys) { clients[client]?.memory.renew(now: now) }
  }

  /// Forgets what is too old. To be called now and then: a client may never come back.
  package mutating func sweep(now: Instant) {
    for client in Array(clients.keys) {
      drop(clients[client]?.memory.sweep(now: now) ?? [])
      forgetIfEmpty(client)
    }
  }

  /// Connections that ended with an error response and whose frames do not come again any more,
  /// since the last call.
  package mutating func takeForgotten() -> [UInt64] { exchange(&forgotten, with: []) }

  private mutating func forgetIfEmpty(_ client: String) {
    if clients[client]?.memory.hasEntriesBehindResponse == false, clients[client]?.sources.isEmpty == false {
      forgotten += clients[client]?.sources ?? []
      clients[client]?.sources = []
    }
    if clients[client]?.memory.isEmpty == true { clients[client] = nil }
  }

  private mutating func drop(_ lines: [ForwardedLine]) {
    for line in lines where fresh.take(line).isEmpty { waiting[line] = nil }
  }
}
