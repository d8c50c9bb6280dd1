internal import Logging
internal import NIOCore
internal import PushStore
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import Carillon
@testable internal import PushEngine
@testable internal import PushService

/// One process of the simulation: the real bridge, without sockets, and the real intake.
final class BridgeProcess: @unchecked Sendable {
  // Sync: used on the simulated loop only.

  /// What stands for the socket of a connection.
  private final class Socket: @unchecked Sendable {
    // Sync: as the process.
    var connection: BridgeConnection
    let link: BridgeLink
    /// What the client has not read yet.
    var response: ErrorResponse?
    var isEnded = false
    /// The bridge has closed it, because the client did not.
    var isGone = false
    var reads = true
    var timer: (any LoopTimer)?
    /// Of each frame that was forwarded or recognised, by its number.
    var lines: [UInt64: ForwardedLine] = [:]
    var recognised: Set<UInt64> = []
    private var seenCount: UInt64 = 0

    init(_ connection: consuming BridgeConnection, _ link: BridgeLink) {
      self.connection = connection
      self.link = link
    }

    /// Notes the frames that have come since the last call.
    func note(now: Instant) {
      guard connection.frameCount > seenCount, var trail = connection.arrivals?.trail else { return }
      for (number, frame) in trail.frames(from: seenCount, now: now) {
        lines[number] = frame.line
        if frame.isRecognised { recognised.insert(number) }
      }
      seenCount = connection.frameCount
    }
  }

  /// What a client's connection was when its process was killed.
  struct Lost {
    var taken = BridgeModel.Taken()
    var lines: [UInt64: ForwardedLine] = [:]
  }

  let loop: SimulatedLoop
  let clock: SimulatedClock
  let store: SimulatedStore
  private let storeDisk: StoreDisk
  private let outcomes: OutcomeRecorder
  private let number: UInt64
  private let settings: BridgeConnection.Settings
  private let deployment: SimulatedDeployment
  private let apps: BridgeApps
  private let queueByteLimit: Int
  private var sockets: [UInt64: Socket] = [:]
  private var random: SeededGenerator
  private var lastConnection: UInt64
  /// The last line that the journal had of each run when the process began.
  private let journalLines: [IntakeRunID: UInt64]
  /// Of several nodes; nil: the store is this process's alone.
  private let carrier: IntakeCarrier?
  private let incarnation = SharedNumber()
  private(set) var isAccepting = false
  private var isClosing = false
  private var ending: Gate?

  init(
    _ plan: BridgeSimulation.Plan, _ engine: SimulatedProcess, _ configuration: AppConfiguration, number: UInt64,
    _ outcomes: OutcomeRecorder, _ store: SimulatedStore, _ storeDisk: StoreDisk, _ clock: SimulatedClock
  ) throws {
    (loop, self.clock, self.store, self.storeDisk, self.number) = (engine.loop, clock, store, storeDisk, number)
    self.outcomes = outcomes
    settings = plan.settings
    queueByteLimit = plan.queueByteLimit
    random = SeededGenerator(seed: plan.seed &+ number &* 31)
    lastConnection = number << 32
    deployment = try SimulatedDeployment(engine, configuration, outcomes) { clock.milliseconds }
    journalLines = deployment.deployment.unfinishedIntakeLines
    apps = BridgeApps(
      memory: plan.settings.memory, deployment: deployment.deployment, outcomes: outcomes, store: store, clock: clock,
      logger: Self.logger)
    outcomes.tell(apps)
    carrier = store.ledger.map { [deployment, incarnation] ledger in
      IntakeCarrier(
        ledger: ledger, outcomes: outcomes, deployment: deployment.deployment, incarnation: { incarnation.value },
        isDraining: { false }, clock: clock, logger: Self.logger)
    }
    if carrier != nil { apps.share(["bridge"]) }
  }

  private static let logger = Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() }

  /// Recovers as the service does, and listens then.
  ///
  /// - Parameter former: the incarnation of the process before on this disk.
  func begin(remembers: Bool, restores: Bool, looks: Bool, replacing former: Int64?) {
    _ = Task(executorPreference: loop) { [self] in
      if carrier != nil { await repeated { () throws(StoreError) in try await join(former) } }
      if restores { await repeated { () throws(StoreError) in try outcomes.restoreDeferred() } }
      while !isClosing, let carrier, (try? await carrier.restore()) == nil { try? await clock.sleep(for: .seconds(1)) }
      let owned = carrier?.owned ?? []
      if remembers { await repeated { () throws(StoreError) in try await apps.restore(owned: owned) } }
      await repeated { () throws(StoreError) in
        try await store.endRuns(except: Set(journalLines.keys.map(StoredRunID.init)), at: clock.now)
      }
      _ = await deployment.deployment.resumeIntake(owned: owned)
      apps.begin()
      isAccepting = !isClosing
      carrying = Task(executorPreference: loop) { [carrier] in await carrier?.run { _ in true } }
      while !hasEnded, !isKilled {
        if looks { await apps.look() }
        guard !isClosing else {
          guard carrier != nil else { return }
          try? await clock.sleep(for: .milliseconds(500))
          continue
        }
        apps.endStopped()
        if outcomes.awayDuration != nil { try? outcomes.makeDurable() }
        await apps.sweep()
        try? await clock.sleep(for: .milliseconds(carrier == nil ? 5_000 : 500))
      }
    }
  }

  private var carrying: Task<Void, Never>?
  /// It sends what the other node has taken in.
  var carries: Bool { carrying != nil }
  private var isKilled = false
  /// 0: it has not joined.
  var joined: Int64 { incarnation.value }

  /// The other node is lost.
  private func join(_ former: Int64?) async throws(StoreError) {
    for node in try await store.nodes() ?? [] where node.isAlive && node.incarnation != former {
      guard node.name != store.node else { continue }
      _ = try await store.fence(node)
    }
    // The answer to the first time may have been lost.
    let own = try await store.nodes()?.first { $0.name == store.node && $0.isAlive }?.incarnation
    guard let joined = try await store.join(store.node, replacing: own ?? former) else { return }
    incarnation.value = joined
    outcomes.share(as: joined)
  }

  private func repeated(_ body: () async throws(StoreError) -> Void) async {
    while !isClosing {
      do throws(StoreError) { return try await body() } catch { try? await clock.sleep(for: .seconds(1)) }
    }
  }

  private var intake: AppIntake? { deployment.runtime.intake }
  var hasEnded: Bool { ending?.isOpen ?? false }
  /// Notifications that were sent again, whose first sending was accepted.
  var recognisedCount: Int { apps.counts.values.reduce(0) { $0 + $1.alreadyDelivered } }
  /// Everything that was taken in has its outcome.
  var isQuiet: Bool { intake.map { $0.oldestAge == .zero && $0.queuedByteCount == 0 } ?? true }

  /// Nothing that happens in it has an effect any more.
  func kill() {
    (isAccepting, isClosing, isKilled) = (false, true, true)
    store.kill()
  }

  /// Asks all clients to leave.
  func close() {
    (isAccepting, isClosing) = (false, true)
    apps.tell(.end(by: nil))
  }

  /// Takes nothing more in, and ends when everything has its outcome.
  func finish() {
    isClosing = true
    if ending == nil { ending = intake?.finish() }
  }

  /// As the service ends, which does not wait for a store that is away for too long.
  func finishWriting() { try? outcomes.makeIntakeDurable() }

  /// Ends what is left of it.
  func end() {
    finish()
    isKilled = true
    carrying?.cancel()
    deployment.runtime.runs.cancelAll()
    deployment.close()
  }

  // MARK: Clients

  func connect(_ client: String) -> UInt64 {
    lastConnection += 1
    let id = lastConnection
    let connection = BridgeConnection(settings, logger: Self.logger) { [queueByteLimit, apps] in
      $0.queuedByteCount < queueByteLimit && apps.takesIn($0.id)
    }
    let link = BridgeLink(id: id, client: client) { [weak self] in self?.wakeLater(id) }
    let socket = Socket(connection, link)
    sockets[id] = socket
    guard let push = try? deployment.deployment.app("bridge") else {
      socket.isEnded = true
      return id
    }
    perform(socket.connection.begin(apps.app("bridge"), push, link, isEnding: isClosing, now: loop.now), id, socket)
    return id
  }

  /// The link has messages: the event loop reads them soon.
  private func wakeLater(_ id: UInt64) {
    let delay = Duration.microseconds(Int.random(in: 0...3_000, using: &random))
    _ = loop.schedule(at: loop.now + delay) { [weak self] in
      guard let self, let socket = sockets[id] else { return }
      perform(socket.connection.readMessages(now: loop.now), id, socket)
    }
  }

  private func perform(_ output: BridgeConnection.Output, _ id: UInt64, _ socket: Socket) {
    socket.note(now: loop.now)
    for action in output.actions {
      switch action {
      case .send(let response): socket.response = response
      case .halfClose, .close: socket.isEnded = true
      case .concluded: break
      }
    }
    socket.reads = output.reads
    socket.timer?.cancel()
    socket.timer = output.wake.map { wake in
      loop.schedule(at: max(wake, loop.now)) { [weak self, weak socket] in
        guard let self, let socket, sockets[id] === socket else { return }
        let output = socket.connection.woken(now: loop.now)
        perform(output, id, socket)
        if output.actions.contains(.close) { close(socket) }
      }
    }
  }

  func wantsBytes(_ id: UInt64) -> Bool { sockets[id]?.reads ?? false }

  func receive(_ bytes: [UInt8], _ id: UInt64) {
    guard let socket = sockets[id] else { return }
    perform(socket.connection.received(ByteBuffer(bytes: bytes), now: loop.now), id, socket)
  }

  func hasEnded(_ id: UInt64) -> Bool { sockets[id]?.isEnded ?? true }
  func pendingCount(_ id: UInt64) -> Int {
    switch sockets[id] {
    case let socket?: socket.connection.pendingCount
    case nil: 0
    }
  }

  func lost(_ id: UInt64) -> Lost {
    guard let socket = sockets[id] else { return Lost() }
    socket.note(now: loop.now)
    var lost = Lost()
    (lost.taken.count, lost.taken.recognised) = (socket.connection.frameCount, socket.recognised)
    lost.lines = socket.lines
    return lost
  }

  /// Of the frames that a killed process had taken in, those that nobody will send.
  func lostFrames(_ lost: Lost) -> Set<UInt64> {
    let contents = storeDisk.contents
    return Set(
      lost.lines.filter { _, line in
        guard let run = IntakeRunID(high: line.high, low: line.low) else { return true }
        let id = StoredNotificationID(run: StoredRunID(run), line: line.line)
        guard contents.outcome(of: id) == nil else { return false }
        return carrier == nil ? UInt64(line.line) > journalLines[run] ?? 0 : !contents.keeps(id)
      }.keys)
  }

  /// The client reads the end of a connection, and closes it.
  func read(_ id: UInt64) -> ErrorResponse? {
    guard let socket = sockets[id] else { return nil }
    let response = socket.response
    if !socket.isGone { _ = socket.connection.peerClosed(now: loop.now) }
    remove(id, socket)
    return response
  }

  func response(_ id: UInt64) -> ErrorResponse? { sockets[id]?.response }

  /// The network ends a connection.
  func cut(_ id: UInt64) { if let socket = sockets[id] { remove(id, socket) } }

  private func remove(_ id: UInt64, _ socket: Socket) {
    socket.timer?.cancel()
    close(socket)
    sockets[id] = nil
  }

  private func close(_ socket: Socket) {
    guard !socket.isGone else { return }
    socket.note(now: loop.now)
    socket.isGone = true
    socket.connection.closed(now: loop.now)
  }

  func hasGivenUp(_ id: UInt64) -> Bool { sockets[id]?.isGone ?? false }
}
