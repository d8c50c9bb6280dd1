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
    package var token: DeviceToken
    package var payload: [UInt8]
    package var expiration: UInt32

    package init(token: DeviceToken, payload: [UInt8], expiration: UInt32) {
      self.token = token
      self.payload = payload
      self.expiration = expiration
    }
  }

  package let kind: Kind
  /// Not sent yet, the next one last.
  private var queue: [(item: Item, isRepeated: Bool)]
  /// Sent on this connection, with their identifiers.
  private var sent: [(identifier: UInt32, item: Item)] = []
  package private(set) var reported: [(item: Item, status: GatewayStatus)] = []
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
    sent = []
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
          sent.append((nextIdentifier, Item(token: Self.noToken, payload: [], expiration: 0)))
          bytes += frame(.framed, [], [], nextIdentifier, 0, nil)
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
      sent.append((nextIdentifier, item))
      bytes += frame(
        command, item.token.bytes, item.payload, nextIdentifier, item.expiration, command == .framed ? 10 : nil)
      nextIdentifier += 1
    }
    return bytes
  }

  /// The connection has ended: with an error response, or without one.
  package mutating func read(_ response: ErrorResponse?) {
    guard let response else { return resend(sent[...]) }
    if response.status == .shutdown {
      guard let last = sent.lastIndex(where: { $0.identifier == response.identifier }) else {
        return resend(sent[...])
      }
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

  private mutating func resend(_ followers: ArraySlice<(identifier: UInt32, item: Item)>) {
    queue += followers.reversed().filter { $0.item.token != Self.noToken }.map { ($0.item, true) }
    sent = []
  }

  /// Stands for the empty token of a probe.
  private static let noToken: DeviceToken = {
    guard let token = DeviceToken(bytes: [0]) else { preconditionFailure("a token of one byte") }
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
