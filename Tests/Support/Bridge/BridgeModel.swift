package import PushTransport
package import PushWire

/// One app's bridge, without sockets: what it forwards is in ``forwarded``, and its answers are
/// given by ``answer(_:_:)``, in any order.
///
/// It stands for the shell of a session in PushServer, which needs a channel.
package struct BridgeModel {
  /// What the service has been sent.
  package struct Forwarded: Sendable {
    package var line: ForwardedLine
    package var token: TokenBytes
    package var payload: [UInt8]
  }

  /// For tests of the tests.
  package enum Mistake: Sendable, CaseIterable {
    /// What was forwarded is not recognised.
    case forgets
    /// What an error response called discarded stays, whatever the client goes on with.
    case remembersAfterResponses
  }

  /// What the store must have before the notification is sent.
  package enum Record: Sendable {
    /// It came at ``BridgeRecovery/Frame/answeredAt``.
    case frame(BridgeRecovery.Frame, ForwardedLine)
    case ended(connection: UInt64, BridgeRecovery.End)
  }

  /// The frames that a connection has not discarded.
  package struct Taken: Sendable {
    package var count: UInt64 = 0
    /// Those that had been forwarded before.
    package var recognised: Set<UInt64> = []

    package init() {}
  }

  package final class Connection {
    package fileprivate(set) var session: BridgeSession
    fileprivate var trail: BridgeTrail
    fileprivate let client: String
    /// What the client has not read yet.
    package fileprivate(set) var response: ErrorResponse?
    package fileprivate(set) var isEnded = false
    /// Answers that were found but not handed over.
    fileprivate var mailbox: [BridgeLedger.Delivery] = []
    fileprivate var recognised: Set<UInt64> = []
    /// It is known what it begins with.
    fileprivate var hasBegun = false

    fileprivate init(_ settings: BridgeSession.Settings, client: String, memory: ForwardedMemory.Limits) {
      session = BridgeSession(settings)
      trail = BridgeTrail(memory)
      self.client = client
    }
  }

  private struct Batch: BridgeIntake {
    let client: String
    let connection: UInt64
    let now: Instant
    var ledger: BridgeLedger
    var trail: BridgeTrail
    var frames: [(number: UInt64, frame: BridgeFrame)] = []
    var recognised: [(number: UInt64, digest: FrameDigest, line: ForwardedLine)] = []
    var hasBegun: Bool
    let mistake: Mistake?

    mutating func take(_ frame: BridgeFrame, number: UInt64) -> FrameAnswer? {
      if mistake != .forgets,
        let known = ledger.recognise(frame.digest, client: client, frame: number, connection: connection, now: now)
      {
        hasBegun = true
        recognised.append((number, frame.digest, known.line))
        trail.recognised(frame.digest, known)
        return known.answer
      }
      trail.took(frame.digest, line: nil, answer: nil)
      if !hasBegun, mistake != .remembersAfterResponses { ledger.goesOn(connection, client: client) }
      hasBegun = true
      frames.append((number, frame))
      return nil
    }
  }

  private let settings: BridgeSession.Settings
  private var ledger: BridgeLedger
  package var now = Instant(nanoseconds: 1_000_000_000)
  package var connections: [UInt64: Connection] = [:]
  package private(set) var forwarded: [Forwarded] = []
  package private(set) var recognisedCount = 0
  private var records: [Record] = []
  /// The process's number: of its run, and of its connections.
  private let process: UInt64
  private let mistake: Mistake?
  private let memory: ForwardedMemory.Limits
  private var lastConnection: UInt64

  package init(
    _ settings: BridgeSession.Settings, process: UInt64 = 1, memory: ForwardedMemory.Limits = Self.endless,
    mistake: Mistake? = nil
  ) {
    self.settings = settings
    self.process = process
    lastConnection = process << 32
    self.mistake = mistake
    self.memory = memory
    var memory = memory
    if mistake == .remembersAfterResponses { memory.quietTime = .seconds(1_000_000) }
    ledger = BridgeLedger(memory)
  }

  /// Nothing becomes too old in any run.
  package static var endless: ForwardedMemory.Limits {
    var limits = ForwardedMemory.Limits()
    limits.age = .seconds(1_000_000_000)
    return limits
  }

  /// Forgets what is too old, as the service does now and then.
  package mutating func sweep() {
    ledger.sweep(now: now)
    noteForgotten()
    for connection in connections.values { connection.trail.sweep(limit: memory.count, now: now) }
  }

  /// Notifications that were sent again and whose first sending was accepted.
  package mutating func takeAlreadyDelivered() -> Int { ledger.takeAlreadyDelivered() }

  package mutating func connect(_ client: String) -> UInt64 {
    lastConnection += 1
    connections[lastConnection] = Connection(settings, client: client, memory: memory)
    ledger.opened(lastConnection, client: client, now: now)
    noteForgotten()
    return lastConnection
  }

  package func taken(_ id: UInt64) -> Taken {
    var taken = Taken()
    guard let connection = connections[id] else { return taken }
    (taken.count, taken.recognised) = (connection.session.frameCount, connection.recognised)
    return taken
  }

  package func wantsBytes(_ id: UInt64) -> Bool {
    switch connections[id] {
    case let connection?: connection.session.wantsBytes
    case nil: false
    }
  }

  package mutating func receive(_ bytes: [UInt8], _ id: UInt64) {
    guard let connection = connections.removeValue(forKey: id) else { return }
    connection.trail.arrive(now: now)
    var batch = Batch(
      client: connection.client, connection: id, now: now, ledger: ledger, trail: connection.trail,
      hasBegun: connection.hasBegun, mistake: mistake)
    let actions = unsafe withExactBytes(bytes) { unsafe connection.session.received($0, now: now, intake: &batch) }
    (ledger, connection.trail, connection.hasBegun) = (batch.ledger, batch.trail, batch.hasBegun)
    noteForgotten()
    recognisedCount += batch.recognised.count
    connection.recognised.formUnion(batch.recognised.map(\.number))
    for frame in batch.recognised {
      record(frame.number, frame.digest, frame.line, id, connection.client, isRecognised: true)
    }
    for (number, frame) in batch.frames {
      let line = ForwardedLine(high: process, low: 2, line: UInt32(forwarded.count + 1))
      ledger.forwarded(line, frame: number, connection: id)
      connection.trail.forwarded(number, as: line)
      record(number, frame.digest, line, id, connection.client)
      forwarded.append(Forwarded(line: line, token: frame.token, payload: frame.payload))
    }
    connection.session.journalled(before: connection.session.frameCount)
    perform(actions, connection, id)
    connections[id] = connection
  }

  /// The service answers a line.
  ///
  /// - Returns: the connection to which the answer is on its way; nil: nobody waits for it there.
  @discardableResult
  package mutating func answer(_ line: ForwardedLine, _ answer: FrameAnswer) -> UInt64? {
    guard let delivery = ledger.answered(line, count: 1, answer, now: now).first,
      let connection = connections[delivery.connection]
    else { return nil }
    // As the service does: neighbours with the same answer are handed over together.
    if let last = connection.mailbox.indices.last, connection.mailbox[last].answer == delivery.answer,
      connection.mailbox[last].frame + UInt64(connection.mailbox[last].count) == delivery.frame
    {
      connection.mailbox[last].count += delivery.count
    } else {
      connection.mailbox.append(delivery)
    }
    return delivery.connection
  }

  /// What an earlier process forwarded.
  package mutating func restore(_ frame: BridgeRecovery.Frame, as line: ForwardedLine, isByResponse: Bool = false) {
    ledger.restore(frame, as: line, isByResponse: isByResponse, now: now)
  }

  /// What was recorded since the last call.
  package mutating func takeRecords() -> [Record] {
    defer { records = [] }
    return records
  }

  private mutating func record(
    _ number: UInt64, _ digest: FrameDigest, _ line: ForwardedLine, _ connection: UInt64, _ client: String,
    isRecognised: Bool = false
  ) {
    let frame = BridgeRecovery.Frame(
      app: "", client: client, digest: digest, answer: nil, answeredAt: now, connection: connection, number: number,
      isRecognised: isRecognised)
    records.append(.frame(frame, line))
  }

  package mutating func deliver(_ id: UInt64) {
    guard let connection = connections.removeValue(forKey: id) else { return }
    drain(connection, id)
    connections[id] = connection
  }

  package mutating func woken(_ id: UInt64) {
    guard let connection = connections.removeValue(forKey: id) else { return }
    perform(connection.session.woken(now: now), connection, id)
    connections[id] = connection
  }

  package mutating func end(_ id: UInt64) {
    guard let connection = connections.removeValue(forKey: id) else { return }
    connection.trail.stop(now: now)
    perform(connection.session.end(now: now), connection, id)
    connections[id] = connection
  }

  /// The client closes its side, and reads on.
  package mutating func peerClosed(_ id: UInt64) {
    guard let connection = connections.removeValue(forKey: id) else { return }
    connection.trail.stop(now: now)
    perform(connection.session.peerClosed(now: now), connection, id)
    connections[id] = connection
  }

  /// The connection breaks: neither side knows what the other has.
  package mutating func cut(_ id: UInt64) {
    guard let connection = connections.removeValue(forKey: id) else { return }
    if !connection.isEnded { conclude(.broken, connection, id) }
  }

  private mutating func drain(_ connection: Connection, _ id: UInt64) {
    let mailbox = connection.mailbox
    connection.mailbox = []
    var actions: [BridgeAction] = []
    for delivery in mailbox {
      connection.trail.answered(delivery.frame, count: delivery.count, delivery.answer)
      actions += connection.session.answered(delivery.frame, count: delivery.count, delivery.answer, now: now)
    }
    perform(actions, connection, id)
  }

  private mutating func perform(_ actions: [BridgeAction], _ connection: Connection, _ id: UInt64) {
    for action in actions {
      switch action {
      case .concluded(let end): conclude(end, connection, id)
      case .send(let response): connection.response = response
      case .halfClose, .close: connection.isEnded = true
      }
    }
  }

  private mutating func conclude(_ end: BridgeEnd, _ connection: Connection, _ id: UInt64) {
    let remainder = connection.trail.remainder(end, now: now)
    records.append(
      .ended(connection: id, BridgeRecovery.End(from: remainder.from, recentFrom: remainder.recentFrom)))
    let underway = Set(ledger.ended(id, end, remainder, client: connection.client, now: now))
    noteForgotten()
    guard !underway.isEmpty else { return }
    for delivery in connection.mailbox {
      connection.trail.answered(delivery.frame, count: delivery.count, delivery.answer)
    }
    let rest = connection.trail.frames(from: 0, now: now).filter { underway.contains($0.number) }
    let lost = ledger.remember(rest, end, client: connection.client, connection: id, now: now)
    precondition(lost.isEmpty, "a forwarded frame without an answer that nobody waits for")
  }

  private mutating func noteForgotten() {
    records += ledger.takeForgotten().map { .ended(connection: $0, BridgeRecovery.End(from: nil, recentFrom: nil)) }
  }
}
