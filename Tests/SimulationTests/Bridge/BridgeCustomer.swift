internal import PushTransport
internal import PushWire
internal import Support

/// A provider that sends through the bridge, and outlasts its processes.
///
/// It may send its whole list again and again. That is honest: it waits as long as the guide says
/// that a repeat may be taken for a resend.
final class BridgeCustomer: @unchecked Sendable {
  // Sync: used on the simulated loop only.
  struct Behaviour {
    var kind: ResendingClient.Kind
    /// Of 1000 steps, those at which the network ends the connection.
    var cutPerMille = 0
    /// How often the list is sent.
    var roundCount = 1
    /// After a break, what was written in this time before it is sent again.
    var retryTime = Duration.seconds(5)
  }

  let name: String
  private let behaviour: Behaviour
  private let items: [ResendingClient.Item]
  private var client: ResendingClient
  private var random: SeededGenerator
  private var connection: UInt64?
  private var unsent: [UInt8] = []
  /// Bytes written on the connection, and when.
  private var written: [(end: Int, at: Instant)] = []
  /// Of connections to the present process that broke: what it did not send again, with what the
  /// process had taken.
  private var broken: [(sent: [UInt64: ResendingClient.Item], lost: BridgeProcess.Lost)] = []
  /// The process of its connection was killed.
  private var lostConnection: (lost: BridgeProcess.Lost, unread: ErrorResponse?, at: Instant)?
  private var roundsLeft: Int
  /// What came shortly before a break may be remembered.
  private var isInReach = false
  private var brokeAt = Instant.start
  /// Since when everything has its outcome.
  private var quietSince: Instant?
  private(set) var isDone = false
  /// The bridge has closed a connection before all answers had come, or before the client did.
  private(set) var wasShutDown = false

  /// After a break, repeats are delivered when the outcomes are older than this.
  private static let memory = Duration.seconds(610)
  /// What came earlier before a break is not remembered.
  private static let reach = Duration.seconds(12)

  init(_ name: String, _ behaviour: Behaviour, _ items: [ResendingClient.Item], seed: UInt64) {
    (self.name, self.behaviour, self.items) = (name, behaviour, items)
    roundsLeft = behaviour.roundCount - 1
    client = ResendingClient(behaviour.kind, items)
    random = SeededGenerator(seed: seed)
  }

  var isConnected: Bool { connection != nil }
  var reportedStatuses: Set<GatewayStatus> { Set(client.reported.map(\.status)) }
  var reportedCount: Int { client.reported.count }
  var sentItems: [ResendingClient.Item] { (0..<behaviour.roundCount).flatMap { _ in items } }

  func problems(_ refused: [TokenBytes: Int]) -> [String] { client.problems(refused).map { "\(name): \($0)" } }

  func run(_ process: BridgeProcess) {
    guard !isDone else { return }
    (quietSince, brokeAt) = (nil, .start)
    if let (lost, unread, at) = lostConnection {
      broke(lost.taken, lost: process.lostFrames(lost), unread: unread, now: at)
      (isInReach, brokeAt) = (true, .start)
    }
    lostConnection = nil
    for connection in broken {
      client.sendAgain(process.lostFrames(connection.lost).sorted().compactMap { connection.sent[$0] })
    }
    broken = []
    go(process)
  }

  private func go(_ process: BridgeProcess) {
    guard !isDone else { return }
    let wasIdle = step(process)
    var delay = wasIdle ? Int.random(in: 50...500, using: &random) : Int.random(in: 0...20, using: &random)
    if isWaiting(process) { delay = Int.random(in: 1_000...30_000, using: &random) }
    _ = process.loop.schedule(at: process.loop.now + .milliseconds(delay)) { [weak self, weak process] in
      if let self, let process { go(process) }
    }
  }

  /// The process is gone; a response that it wrote may still arrive.
  ///
  /// - Parameter isInOrder: it does.
  func lost(_ process: BridgeProcess, isInOrder: Bool = false) {
    guard let connection else { return }
    if process.hasEnded(connection), isInOrder || random.chance(50) {
      read(process.read(connection))
    } else {
      lostConnection = (process.lost(connection), process.response(connection), process.loop.now)
    }
    self.connection = nil
  }

  // MARK: Ends of connections

  /// Returns what it does not send again, by the numbers of its frames.
  @discardableResult
  private func broke(
    _ taken: BridgeModel.Taken, lost: Set<UInt64> = [], unread: ErrorResponse? = nil, now: Instant
  ) -> [UInt64: ResendingClient.Item] {
    let past = written.last { now.since($0.at) > behaviour.retryTime }?.end ?? 0
    brokeAt = now
    defer {
      unsent = []
      if let last = written.last, now.since(last.at) < Self.reach { isInReach = true }
    }
    return client.broke(taken, past: past, lost: lost, unread: unread)
  }

  private func read(_ response: ErrorResponse?) {
    client.read(response)
    unsent = []
    if response?.status == .shutdown { (isInReach, wasShutDown) = (true, true) }
  }

  private func cut(_ process: BridgeProcess, _ connection: UInt64) {
    let (lost, unread) = (process.lost(connection), process.response(connection))
    process.cut(connection)
    broken.append((broke(lost.taken, unread: unread, now: process.loop.now), lost))
    self.connection = nil
  }

  // MARK: Rounds

  /// Everything was sent, and another round is to come.
  private func isWaiting(_ process: BridgeProcess) -> Bool {
    guard roundsLeft > 0, !client.hasWork, unsent.isEmpty else { return false }
    guard let connection else { return true }
    return client.kind != .pushy && !process.hasEnded(connection) && process.pendingCount(connection) == 0
  }

  private func finishRound(_ process: BridgeProcess) {
    guard roundsLeft > 0 else {
      isDone = true
      if let connection { cut(process, connection) }
      return
    }
    if let connection, random.chance(30) { cut(process, connection) }
    if process.isQuiet { quietSince = quietSince ?? process.loop.now } else { quietSince = nil }
    guard !client.hasWork, unsent.isEmpty, let quietSince else { return }
    // An open connection may break before the next round is written.
    if connection != nil, let last = written.last, process.loop.now.since(last.at) < Self.reach { return }
    guard !isInReach || process.loop.now.since(max(quietSince, brokeAt)) > Self.memory else { return }
    isInReach = false
    self.quietSince = nil
    roundsLeft -= 1
    client.add(items)
  }

  // MARK: Steps

  /// Returns whether nothing was to be done.
  private func step(_ process: BridgeProcess) -> Bool {
    guard let connection else {
      if isWaiting(process) {
        finishRound(process)
        return true
      }
      guard process.isAccepting else { return true }
      self.connection = process.connect(name)
      client.connected()
      (unsent, written) = ([], [])
      return false
    }
    if process.hasEnded(connection) {
      // It reads late, and may write meanwhile.
      guard random.chance(30) else { return write(process, connection) }
      if process.hasGivenUp(connection) {
        (isInReach, brokeAt, wasShutDown) = (true, process.loop.now, true)
        // Or the response was destroyed.
        if Bool.random(using: &random) {
          cut(process, connection)
          return false
        }
      }
      read(process.read(connection))
      self.connection = nil
      if client.isConfirmed, !client.hasWork { finishRound(process) }
      return false
    }
    if Int.random(in: 0..<1000, using: &random) < behaviour.cutPerMille {
      cut(process, connection)
      return false
    }
    if client.kind != .pushy, !client.hasWork, unsent.isEmpty, process.pendingCount(connection) == 0 {
      // Such a client closes when it has waited for long enough.
      finishRound(process)
      return false
    }
    return write(process, connection)
  }

  private func write(_ process: BridgeProcess, _ connection: UInt64) -> Bool {
    if unsent.isEmpty { unsent = client.write(Int.random(in: 1...50, using: &random)) }
    guard !unsent.isEmpty, process.wantsBytes(connection) else { return true }
    let count = min(unsent.count, Int.random(in: 1...4_000, using: &random))
    process.receive(Array(unsent.prefix(count)), connection)
    unsent.removeFirst(count)
    written.append(((written.last?.end ?? 0) + count, process.loop.now))
    return false
  }
}
