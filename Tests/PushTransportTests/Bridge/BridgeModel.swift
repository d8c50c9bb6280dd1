internal import PushTransport
internal import PushWire
internal import Support

/// One app's bridge with a service behind it that answers when it is asked to, in any order.
struct BridgeModel {
  /// What the service has been sent.
  struct Forwarded {
    var line: ForwardedLine
    var token: DeviceToken
    var expiration: UInt32?
  }

  final class Connection {
    var session: BridgeSession
    var trail: BridgeTrail
    var client: String
    /// What the client has not read yet.
    var response: ErrorResponse?
    var isEnded = false
    /// Answers that were found but not handed over.
    var mailbox: [(frame: UInt64, answer: FrameAnswer)] = []

    init(_ settings: BridgeSession.Settings, client: String, trailLimit: Int) {
      session = BridgeSession(settings)
      trail = BridgeTrail(limit: trailLimit)
      self.client = client
    }
  }

  struct Batch: BridgeIntake {
    let client: String
    let connection: UInt64
    let now: Instant
    var ledger: BridgeLedger
    var trail: BridgeTrail
    var frames: [(number: UInt64, frame: BridgeFrame)] = []
    var recognised = 0
    /// A mistake for the test of the test: what was forwarded is not recognised.
    let isForgetful: Bool

    mutating func take(_ frame: BridgeFrame, number: UInt64) -> FrameAnswer? {
      if !isForgetful,
        let known = ledger.recognise(frame.digest, client: client, frame: number, connection: connection, now: now)
      {
        recognised += 1
        trail.took(frame.digest, line: known.line, answer: known.answer, now: now)
        return known.answer
      }
      trail.took(frame.digest, line: nil, answer: nil, now: now)
      frames.append((number, frame))
      return nil
    }
  }

  var settings: BridgeSession.Settings
  var ledger: BridgeLedger
  var now = Instant(nanoseconds: 1_000_000_000)
  var connections: [UInt64: Connection] = [:]
  var forwarded: [Forwarded] = []
  var unanswered: [Int] = []
  var recognisedCount = 0
  let isForgetful: Bool
  /// Longer than any run.
  private static let age = Duration.seconds(1_000_000_000)
  private var lastConnection: UInt64 = 0

  init(_ settings: BridgeSession.Settings, isForgetful: Bool = false) {
    self.settings = settings
    self.isForgetful = isForgetful
    var limits = ForwardedMemory.Limits()
    limits.age = Self.age
    ledger = BridgeLedger(limits)
  }

  mutating func connect(_ client: String) -> UInt64 {
    lastConnection += 1
    connections[lastConnection] = Connection(settings, client: client, trailLimit: 10_000)
    return lastConnection
  }

  func wantsBytes(_ id: UInt64) -> Bool {
    switch connections[id] {
    case let connection?: connection.session.wantsBytes
    case nil: false
    }
  }

  mutating func receive(_ bytes: [UInt8], _ id: UInt64) {
    guard let connection = connections.removeValue(forKey: id) else { return }
    var batch = Batch(
      client: connection.client, connection: id, now: now, ledger: ledger, trail: connection.trail,
      isForgetful: isForgetful)
    let actions = unsafe withExactBytes(bytes) { unsafe connection.session.received($0, now: now, intake: &batch) }
    (ledger, connection.trail) = (batch.ledger, batch.trail)
    recognisedCount += batch.recognised
    for (number, frame) in batch.frames {
      let line = ForwardedLine(high: 1, low: 2, line: UInt32(forwarded.count + 1))
      ledger.forwarded(line, frame: number, connection: id)
      connection.trail.forwarded(number, as: line)
      unanswered.append(forwarded.count)
      forwarded.append(Forwarded(line: line, token: frame.token, expiration: frame.expiration))
    }
    perform(actions, connection)
    connections[id] = connection
  }

  /// The service answers one of what it has: it stays on its way to the connection.
  mutating func answer(_ index: Int, _ answer: FrameAnswer) {
    guard let delivery = ledger.answered(forwarded[index].line, answer) else { return }
    connections[delivery.connection]?.mailbox.append((delivery.frame, delivery.answer))
  }

  mutating func deliver(_ id: UInt64) {
    guard let connection = connections.removeValue(forKey: id) else { return }
    drain(connection)
    connections[id] = connection
  }

  mutating func woken(_ id: UInt64) {
    guard let connection = connections.removeValue(forKey: id) else { return }
    perform(connection.session.woken(now: now), connection)
    connections[id] = connection
  }

  mutating func end(_ id: UInt64) {
    guard let connection = connections.removeValue(forKey: id) else { return }
    perform(connection.session.end(now: now), connection)
    connections[id] = connection
  }

  /// The connection breaks: neither side knows what the other has.
  mutating func cut(_ id: UInt64) {
    guard let connection = connections.removeValue(forKey: id) else { return }
    if !connection.isEnded { conclude(from: 0, connection) }
  }

  private mutating func drain(_ connection: Connection) {
    let mailbox = connection.mailbox
    connection.mailbox = []
    var actions: [BridgeAction] = []
    for (frame, answer) in mailbox {
      connection.trail.answered(frame, answer)
      actions += connection.session.answered(frame, answer, now: now)
    }
    perform(actions, connection)
  }

  private mutating func perform(_ actions: [BridgeAction], _ connection: Connection) {
    for action in actions {
      switch action {
      case .concluded(let from): conclude(from: from, connection)
      case .send(let response): connection.response = response
      case .halfClose, .close: connection.isEnded = true
      }
    }
  }

  private mutating func conclude(from: UInt64?, _ connection: Connection) {
    let frames = connection.trail.frames(from: from ?? 0, age: Self.age, now: now)
    guard from != nil else { return ledger.forget(frames) }
    let underway = Set(ledger.remember(frames, client: connection.client, now: now))
    guard !underway.isEmpty else { return }
    for (frame, answer) in connection.mailbox { connection.trail.answered(frame, answer) }
    let rest = connection.trail.frames(from: from ?? 0, age: Self.age, now: now)
      .filter { underway.contains($0.number) }
    let lost = ledger.remember(rest, client: connection.client, now: now)
    precondition(lost.isEmpty, "a forwarded frame without an answer that nobody waits for")
  }
}
