package import PushWire

/// An old sender: what it concludes from an error response, and what it sends again.
package struct ResendingClient: Sendable {
  package enum Kind: Sendable, CaseIterable {
    /// Numbers from 1 on, over all connections. What followed goes before what is new. A frame that
    /// must be refused ends the work.
    case pushy
    /// Command 1, numbers from 0 on for each connection. Status 10 is no failure for it.
    case javaAPNS
    /// Command 2, and command 1 when it sends again: the priority is lost.
    case pyAPNS
  }

  package struct Item: Hashable, Sendable {
    package var token: TokenBytes
    package var payload: [UInt8]
    package var expiration: UInt32

    package init(token: TokenBytes, payload: [UInt8], expiration: UInt32) {
      self.token = token
      self.payload = payload
      self.expiration = expiration
    }
  }

  package let kind: Kind
  /// Not sent yet, the next one last.
  private var queue: [(item: Item, isRepeated: Bool)]
  private struct Sent {
    var identifier: UInt32
    var item: Item
    /// Of the connection's bytes.
    var end: Int
  }

  /// Sent on this connection.
  private var sent: [Sent] = []
  private var byteCount = 0
  package private(set) var reported: [(item: Item, status: GatewayStatus)] = []
  /// Items that were written, and of which the client has learned nothing.
  package private(set) var unheard: [Item] = []
  private var nextIdentifier: UInt32
  private var isProbed = false
  /// The probe was answered: everything has arrived.
  package private(set) var isConfirmed = false
  /// Frames written, without probes.
  package private(set) var writtenCount = 0

  package init(_ kind: Kind, _ items: [Item]) {
    self.kind = kind
    queue = items.reversed().map { ($0, false) }
    nextIdentifier = kind == .javaAPNS ? 0 : 1
  }

  package var hasWork: Bool { !queue.isEmpty || kind == .pushy && !isProbed }

  package mutating func connected() {
    (sent, byteCount) = ([], 0)
    isProbed = false
    if kind == .javaAPNS { nextIdentifier = 0 }
  }

  /// The bytes of the next frames.
  package mutating func write(_ count: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    for _ in 0..<count {
      guard let (item, isRepeated) = queue.popLast() else {
        if kind == .pushy, !isProbed {
          isProbed = true
          bytes += frame(.framed, [], [], nextIdentifier, 0, nil)
          note(Item(token: Self.noToken, payload: [], expiration: 0), end: byteCount + bytes.count)
          nextIdentifier += 1
        }
        break
      }
      writtenCount += 1
      let command: FrameVersion =
        switch kind {
        case .pushy: .framed
        case .javaAPNS: .enhanced
        case .pyAPNS: isRepeated ? .enhanced : .framed
        }
      bytes += frame(
        command, item.token.bytes, item.payload, nextIdentifier, item.expiration, command == .framed ? 10 : nil)
      note(item, end: byteCount + bytes.count)
      nextIdentifier += 1
    }
    byteCount += bytes.count
    return bytes
  }

  private mutating func note(_ item: Item, end: Int) {
    sent.append(Sent(identifier: nextIdentifier, item: item, end: end))
  }

  /// The same notifications once more.
  package mutating func add(_ items: [Item]) {
    queue = items.reversed().map { ($0, false) } + queue
    (isProbed, isConfirmed) = (false, false)
  }

  /// The connection broke. What was written lately is sent again, but no resend once more.
  ///
  /// Old libraries lose what the gateway has discarded without a word. This one sends it again, so
  /// that only what the bridge loses is missing.
  ///
  /// - Parameters:
  ///   - state: what the peer has taken in, and what of that it had known.
  ///   - past: so many bytes of the connection were written long ago.
  ///   - lost: other frames that the peer has lost.
  ///   - unread: the error response that the peer has written: what is behind its frame was
  ///     discarded.
  /// - Returns: what is not sent again, by the numbers of its frames.
  @discardableResult
  package mutating func broke(
    _ state: BridgeModel.Taken, past: Int, lost: Set<UInt64> = [], unread: ErrorResponse? = nil
  ) -> [UInt64: Item] {
    let discarded = unread.map { response in
      let named = sent.lastIndex { $0.identifier == response.identifier }
      return UInt64((named ?? -1) + 1)
    }
    let again = sent.indices.filter { index in
      let number = UInt64(index)
      return number >= state.count || number >= discarded ?? .max || lost.contains(number)
        || sent[index].end > past && !state.recognised.contains(number)
    }
    let isAgain = Set(again)
    let left = sent.indices.filter { !isAgain.contains($0) && sent[$0].item.token != Self.noToken }
    unheard += left.map { sent[$0].item }
    let items = Dictionary(uniqueKeysWithValues: left.map { (UInt64($0), sent[$0].item) })
    resend(again.map { sent[$0] }[...])
    return items
  }

  /// Sends some once more that it had not sent again.
  package mutating func sendAgain(_ items: [Item]) { queue += items.reversed().map { ($0, true) } }

  /// The connection has ended: with an error response, or without one.
  package mutating func read(_ response: ErrorResponse?) {
    guard let response else { return resend(sent[...]) }
    if response.status == .shutdown {
      guard let last = sent.lastIndex(where: { $0.identifier == response.identifier }) else {
        return resend(sent[...])
      }
      unheard += sent[...last].map(\.item)
      return resend(sent[(last + 1)...])
    }
    guard let named = sent.firstIndex(where: { $0.identifier == response.identifier }) else { return resend(sent[...]) }
    if sent[named].item.token == Self.noToken {
      isConfirmed = true
    } else {
      reported.append((sent[named].item, response.status))
    }
    resend(sent[(named + 1)...])
  }

  private mutating func resend(_ followers: ArraySlice<Sent>) {
    queue += followers.reversed().filter { $0.item.token != Self.noToken }.map { ($0.item, true) }
    sent = []
  }

  /// Stands for the empty token of a probe.
  private static let noToken: TokenBytes = {
    guard let token = TokenBytes(bytes: [0]) else { preconditionFailure("a token of one byte") }
    return token
  }()

  private func frame(
    _ command: FrameVersion, _ token: [UInt8], _ payload: [UInt8], _ identifier: UInt32, _ expiration: UInt32,
    _ priority: UInt8?
  ) -> [UInt8] {
    let count = FrameEncoder.byteCount(
      command, tokenByteCount: token.count, payloadByteCount: payload.count, hasIdentifier: true, hasExpiration: true,
      hasPriority: priority != nil)
    return unsafe writingExactBytes(count) { destination in
      unsafe withExactBytes(token) { token in
        unsafe withExactBytes(payload) { payload in
          unsafe FrameEncoder.encode(
            command, token: token, payload: payload, identifier: identifier, expiration: expiration,
            priority: priority, into: destination)
        }
      }
    }
  }
}

extension ResendingClient {
  /// Whether each refused notification was reported once, in sentences. One of which the client
  /// learned nothing need not have been.
  ///
  /// - Parameter refused: how many there are of each.
  package func problems(_ refused: [TokenBytes: Int]) -> [String] {
    let reported = Dictionary(reported.map { ($0.item.token, 1) }, uniquingKeysWith: +)
    let unheard = Dictionary(unheard.map { ($0.token, 1) }, uniquingKeysWith: +)
    let tooMany = reported.filter { $0.value > refused[$0.key, default: 0] }
    let tooFew = refused.filter { reported[$0.key, default: 0] + unheard[$0.key, default: 0] < $0.value }
    return [
      tooMany.isEmpty ? nil : "\(tooMany.count) were reported too often",
      tooFew.isEmpty ? nil : "\(tooFew.count) of \(refused.count) refused ones were not reported",
    ].compactMap { $0 }
  }
}
