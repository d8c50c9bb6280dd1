internal import PushTransport
internal import PushWire

/// One slot of an app's pool: a ring, at most one live connection, and the ``Conversation`` on it.
/// It is bound to one event loop, which is its executor.
///
/// A lane outlives its connections. The ring holds what is not settled yet. The lane owns the pump,
/// the timer, the link and the app's permission to connect. The conversation makes the bytes and
/// interprets events: ``BinaryConversation`` or ``RequestConversation``. The code above the lane
/// does not depend on which one it is.
///
/// The lane is called once per chunk, never once per notification.
actor Lane: LinkDelegate {
  nonisolated let ring: NotificationRing
  nonisolated let loop: any Loop
  nonisolated let shared: AppShared
  /// The limit of its backlog.
  nonisolated let backlog: BacklogGauge
  /// The lane's number in the journal, if there is one.
  nonisolated let journalNumber: UInt64?
  nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.executor.asUnownedSerialExecutor() }

  private let share: TurnShare
  private let dialer: any Dialer
  private let report: @Sendable (LaneEvent) -> Void
  private let context: LaneContext
  private let conversation: any Conversation
  private var idle: LaneIdle
  private var hasBeenOpen = false
  private var isWaitingToDial = false
  private var isPumpScheduled = false
  /// See ``AppShared/haltGeneration``.
  private var seenHold = 0

  /// After this many writes the loop serves its other lanes and reads its sockets.
  private static let writesPerTurn = 4

  /// - Parameters:
  ///   - isKept: an idle connection stays open.
  ///   - seed: for the jitter of its back-off.
  init(
    configuration: AppRules, isKept: Bool, loop: any Loop, dialer: any Dialer, shared: AppShared,
    budget: RingBudget?, seed: UInt64, report: @escaping @Sendable (LaneEvent) -> Void
  ) {
    (self.loop, self.dialer, self.shared, self.report) = (loop, dialer, shared, report)
    share = shared.turns.share(of: loop)
    backlog = BacklogGauge(batchByteCount: configuration.batchByteCount, largest: shared.backlogBlockCountLimit)
    ring = NotificationRing(blockCount: configuration.policy.ringBlockCount, budget: budget)
    let gate = shared.journal.map { IntentGate(journal: $0, lane: $0.addLane(app: shared.app)) }
    journalNumber = gate?.lane
    idle = LaneIdle(ring: ring, loop: loop, scheduler: shared.scheduler)
    let context = LaneContext(
      configuration: configuration, ring: ring, loop: loop, shared: shared, backlog: backlog, gate: gate,
      report: report)
    self.context = context
    conversation =
      switch configuration.transport {
      case .binary: BinaryConversation(configuration, context, seed: seed)
      case .http2(let settings):
        RequestConversation(configuration.policy, settings, context, isKept: isKept, seed: seed)
      }
    context.intentAnswered = { [weak self, loop] in
      loop.execute { [weak self] in self?.assumeIsolated { $0.intentGranted() } }
    }
  }

  /// The app allows this lane to connect.
  func connect() {
    isWaitingToDial = false
    guard !shared.isHalted else { return requestPump() }
    guard !context.isShutDown, context.link == nil, conversation.isDisconnected else { return }
    guard conversation.prepareToDial() else { return requestPump() }
    backlog.connection = .opening
    context.link = dialer.dial(on: loop, delegate: self)
  }

  /// The app is halted: the lane asks again when that is over.
  func mayNotDial() {
    isWaitingToDial = false
    requestPump()
  }

  /// Closes the connection for good. The app's policy decides what becomes of the notifications in
  /// the window.
  func shutDown() {
    context.isShutDown = true
    context.link?.close()
  }

  /// The credential has been replaced. The present connection takes nothing new, and is closed when
  /// everything in flight on it has its outcome.
  ///
  /// - Parameter tokens: for the next connection.
  func renewConnection(tokens: ProviderTokenSource?) {
    conversation.renewConnection(tokens: tokens)
    requestPump()
  }

  /// Leaves the pool, if its ring is empty.
  func retire() {
    if conversation.isDisconnected, retireRing() { context.isShutDown = true } else { report(.stayed) }
  }

  /// Leaves the pool after it was taken back, if its ring is still empty; otherwise later.
  func leave() {
    guard !context.isShutDown, conversation.isDisconnected, retireRing() else { return requestPump() }
    context.isShutDown = true
  }

  /// The pool has taken this lane back. When its ring is empty, its connection ends, and it leaves.
  ///
  /// - Returns: whether there is nothing more to do.
  private func isDone(published: UInt64) -> Bool {
    guard backlog.isLeaving, !context.isShutDown, published == ring.settled else { return false }
    if conversation.isOpen {
      conversation.finish()
      return false
    }
    guard conversation.isDisconnected else { return false }
    report(.left(self))
    return true
  }

  /// Closes the ring, so that a reader that has just chosen this lane finds no room and chooses
  /// another.
  ///
  /// - Returns: false if a reader was faster. Then the lane stays.
  private func retireRing() -> Bool {
    shared.scheduler.remove(self)
    if ring.retire() {
      if let journalNumber { shared.journal?.retired(lane: journalNumber) }
      return true
    }
    shared.scheduler.add(self)
    return false
  }

  // MARK: The pump

  /// Something was published, or something else changed that concerns the conversation. From any
  /// thread.
  nonisolated func wake() { loop.execute { self.assumeIsolated { $0.requestPump() } } }

  /// Called after a claim was published. Wakes the lane only if it sleeps. From any thread.
  nonisolated func published() {
    if ring.takeWakeUp() { wake() }
  }

  /// Takes a turn soon (``Loop/takeTurn(_:_:)``).
  private func requestPump() {
    guard !isPumpScheduled else { return }
    isPumpScheduled = true
    loop.takeTurn(share) {
      self.assumeIsolated { lane in
        lane.isPumpScheduled = false
        let before = lane.handedOverByteCount
        lane.pump()
        return Int(clamping: max(before, lane.handedOverByteCount) - before)
      }
    }
  }

  private var handedOverByteCount: UInt64 { context.link?.handedOverByteCount ?? 0 }

  private func pump() {
    // While draining, the lane does not wait for a connection that would carry nothing.
    if let link = context.link, !conversation.isOpen, shared.campaigns.isDraining, shared.campaigns.isCancelled {
      link.close()
    }
    noticeHold()
    conversation.turnBegins()
    var writes = 0
    while true {
      let published = ring.published
      if isDone(published: published) { return sleep(until: nil, seen: published) }
      switch conversation.step(published: published) {
      case .proceed: continue
      case .wrote:
        writes += 1
        if writes == Self.writesPerTurn { return requestPump() }
      case .yield: return requestPump()
      // The end of the hold wakes the lane.
      case .dial where shared.isHalted: return sleep(until: nil, seen: published)
      case .dial: return requestConnection()
      case .sleep(let deadline): return sleep(until: deadline, seen: published)
      }
    }
  }

  private func noticeHold() {
    let generation = shared.haltGeneration
    guard generation != seenHold else { return }
    seenHold = generation
    let isHalted = shared.isHalted
    conversation.halt(isHalted)
    // A connection that is being opened would carry nothing.
    if isHalted, let link = context.link, !conversation.isOpen { link.close() }
  }

  private func requestConnection() {
    guard !isWaitingToDial, !context.isShutDown else { return }
    isWaitingToDial = true
    report(.wantsConnection(self))
  }

  private func sleep(until deadline: Instant?, seen published: UInt64) {
    let wasBusy = ring.isBusy
    guard idle.sleep(self, until: deadline, seen: published) else { return requestPump() }
    if wasBusy, !ring.isBusy { conversation.becameIdle() }
  }

  /// The timer of ``LaneIdle`` has fired.
  func timerFired() {
    idle.woke()
    requestPump()
  }

  private func intentGranted() {
    context.intentGranted()
    requestPump()
  }

  // MARK: LinkDelegate, on the loop

  nonisolated func linkOpened(_ link: any Link) { assumeIsolated { $0.opened(link) } }

  nonisolated func link(_ link: any Link, received bytes: UnsafeRawBufferPointer) {
    // The call runs on this actor's own executor and ends before the buffer does.
    nonisolated(unsafe) let bytes = unsafe bytes
    assumeIsolated { unsafe $0.received(link, bytes) }
  }

  nonisolated func link(_ link: any Link, isWritable: Bool) {
    assumeIsolated { lane in if link === lane.context.link, isWritable { lane.requestPump() } }
  }

  nonisolated func linkClosed(_ link: any Link, reason: LinkClosure) {
    assumeIsolated { $0.closed(link, reason) }
  }

  private func opened(_ link: any Link) {
    guard link === context.link else { return }
    conversation.opened()
    backlog.connection = .open
    report(.opened(isFirst: !hasBeenOpen))
    hasBeenOpen = true
    context.roomMade(done: conversation.progress)
    requestPump()
  }

  private func received(_ link: any Link, _ bytes: UnsafeRawBufferPointer) {
    guard link === context.link else { return }
    switch unsafe conversation.received(bytes) {
    case .waitForMore: break
    case .takeTurn: requestPump()
    case .close: link.close()
    }
  }

  private func closed(_ link: any Link, _ reason: LinkClosure) {
    guard link === context.link else { return }
    context.link = nil
    backlog.connection = .closed
    shared.tally.connectionEnded(reason)
    let end = conversation.closed(reason)
    // A connection that was taken back before it carried anything is no trouble.
    if !backlog.isLeaving { shared.status.ended(end, now: loop.now) }
    report(.ended(end.ending, cause: end.cause))
    conversation.handOver(from: self)
    if conversation.endedIdle, ring.published == ring.settled { report(.idled(self)) }
    requestPump()
  }
}

extension Lane {
  /// It has an open connection and nothing to send.
  nonisolated var isSpare: Bool { backlog.isConnected && ring.published == ring.settled }
}
