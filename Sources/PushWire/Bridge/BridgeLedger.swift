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

  private let limits: ForwardedMemory.Limits
  private let pool: (any MemoryPool)?
  /// Lines of frames that were forwarded on the connection that waits for them.
  private var fresh = WaitingLines()
  /// What waits for all other lines.
  private var waiting: [ForwardedLine: Waiting] = [:]
  private var memories: [String: ForwardedMemory] = [:]

  /// Frames that were recognised and whose first sending was accepted; see
  /// ``takeAlreadyDelivered()``.
  private var alreadyDelivered = 0

  /// - Parameter pool: of all memories; nil: they are bounded by their numbers only.
  package init(_ limits: ForwardedMemory.Limits = ForwardedMemory.Limits(), pool: (any MemoryPool)? = nil) {
    self.limits = limits
    self.pool = pool
  }

  /// Lines whose outcome a connection waits for.
  package var waitingCount: Int { fresh.count + waiting.count }

  /// A frame was forwarded. To be called before its outcome can come.
  ///
  /// - Parameter count: it and its neighbours, of which each is the next line and the next frame.
  package mutating func forwarded(_ line: ForwardedLine, count: Int = 1, frame: UInt64, connection: UInt64) {
    fresh.add(line, count: count, frame: frame, connection: connection)
  }

  /// What an earlier process forwarded, without the client knowing of it.
  ///
  /// - Parameter time: of its answer.
  package mutating func restore(_ digest: FrameDigest, _ entry: ForwardedMemory.Entry, client: String, at time: Instant)
  {
    if entry.answer == nil {
      _ = fresh.take(entry.line)
      waiting[entry.line] = .memory(client: client, digest)
    }
    let empty = ForwardedMemory(limits, pool: pool)
    drop(memories[client, default: empty].remember(digest, entry, at: time))
  }

  /// Whether anything of this client's may come again.
  package func remembers(_ client: String) -> Bool { memories[client] != nil }

  /// A frame that was forwarded before, for an earlier connection of the client. If it has no
  /// answer yet, that goes to this frame.
  package mutating func recognise(
    _ digest: FrameDigest, client: String, frame: UInt64, connection: UInt64, now: Instant
  ) -> ForwardedMemory.Entry? {
    // In place: a copy would cost as much as the memory is large.
    let entry = memories[client]?.take(digest, now: now)
    if memories[client]?.isEmpty == true { memories[client] = nil }
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
      memories[client]?.answered(line, digest, answer, now: now)
      return nil
    case .nobody?:
      if answer == .accepted { alreadyDelivered += 1 }
      return nil
    case nil:
      return nil
    }
  }

  /// A connection has ended, and its client may send these frames again.
  ///
  /// - Returns: frames whose answer is on its way to the connection. They are to be handed over
  ///   again with it.
  package mutating func remember(
    _ frames: [(number: UInt64, frame: BridgeTrail.Frame)], client: String, now: Instant
  ) -> [UInt64] {
    var underway: [UInt64] = []
    for (number, frame) in frames {
      guard let line = frame.line else { continue }
      let isWaiting = waiting[line] != nil || fresh.contains(line)
      guard isWaiting || frame.answer != nil else {
        underway.append(number)
        continue
      }
      restore(
        frame.digest, ForwardedMemory.Entry(line: line, answer: isWaiting ? nil : frame.answer), client: client,
        at: isWaiting ? now : frame.answeredAt)
    }
    return underway
  }

  /// A connection has ended, and these frames do not come again.
  package mutating func forget(_ frames: [(number: UInt64, frame: BridgeTrail.Frame)]) {
    for (_, frame) in frames {
      guard frame.answer == nil, let line = frame.line, fresh.take(line).isEmpty else { continue }
      if case .frame? = waiting[line] { waiting[line] = .nobody }
    }
  }

  /// Forgets what is too old. To be called now and then: a client may never come back.
  package mutating func sweep(now: Instant) {
    for client in Array(memories.keys) {
      memories[client]?.sweep(now: now)
      if memories[client]?.isEmpty == true { memories[client] = nil }
    }
  }

  private mutating func drop(_ lines: [ForwardedLine]) {
    for line in lines where fresh.take(line).isEmpty { waiting[line] = nil }
  }
}
