internal import PushTransport
internal import PushWire

/// A lane over the binary protocol. The shell here only carries out what ``LaneMachine`` decides; the ring is its resend window.
actor BinaryLane: Lane, LinkDelegate {
  nonisolated let ring: NotificationRing
  nonisolated let loop: any Loop
  nonisolated let shared: AppShared
  nonisolated let backlog: BacklogGauge
  nonisolated let journalNumber: UInt64?
  nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.executor.asUnownedSerialExecutor() }

  private let command: FrameVersion
  private let intentStep: Int
  private let dialer: any Dialer
  private let report: @Sendable (LaneEvent) -> Void
  private var machine: LaneMachine
  private var packer: FramePacker
  private var intentGate: IntentGate?
  private var batchTimer: BatchTimer
  private var decoder = ErrorResponseDecoder()
  private var link: (any Link)?
  private var lastAcknowledged: (link: any Link, byteCount: UInt64, at: Instant)?
  /// Why the present connection ends, where that is known before it closes.
  private var endCause: String?
  private var recorder: SettlementRecorder
  private var idle: LaneIdle
  private var growthHold = GrowthHold()
  private var isWaitingToDial = false
  private var isPumpScheduled = false
  private var isShutDown = false

  /// After so many batches the loop gets a chance to serve its other lanes and read its sockets.
  private static let batchesPerTurn = 4
  private static let acknowledgementAge = Duration.milliseconds(1)

  init(
    configuration: AppConfiguration, loop: any Loop, dialer: any Dialer, shared: AppShared, budget: RingBudget?, seed: UInt64,
    report: @escaping @Sendable (LaneEvent) -> Void
  ) {
    self.loop = loop
    self.dialer = dialer
    self.shared = shared
    backlog = BacklogGauge(batchByteCount: configuration.batchByteCount, largest: shared.backlogBlockCountLimit)
    self.report = report
    command = configuration.command
    intentStep = configuration.intentStep
    ring = NotificationRing(blockCount: configuration.policy.ringBlockCount, budget: budget)
    machine = LaneMachine(policy: configuration.policy, seed: seed)
    machine.learned(shared.growth.refusalStatistics)
    packer = FramePacker(byteCountBound: configuration.batchByteCount, buffers: loop.buffers)
    intentGate = shared.journal.map { IntentGate(journal: $0, lane: $0.addLane(app: shared.app)) }
    journalNumber = intentGate?.lane
    batchTimer = BatchTimer(byteCountBound: configuration.batchByteCount, delay: configuration.batchDelay)
    recorder = SettlementRecorder(configuration: configuration, ring: ring, loop: loop, shared: shared, journalNumber: journalNumber, isOrdered: true)
    idle = LaneIdle(ring: ring, loop: loop, shared: shared)
  }

  func connect() {
    isWaitingToDial = false
    guard !isShutDown, link == nil, machine.isDisconnected else { return }
    machine.dialled()
    decoder = ErrorResponseDecoder()
    link = dialer.dial(on: loop, delegate: self)
  }

  func shutDown() {
    isShutDown = true
    link?.close()
  }

  func retire() {
    if machine.isDisconnected, retireRing() { isShutDown = true } else { report(.stayed) }
  }

  // MARK: The pump

  func requestPump() {
    guard !isPumpScheduled else { return }
    isPumpScheduled = true
    loop.takeTurn {
      self.assumeIsolated { lane in
        lane.isPumpScheduled = false
        lane.pump()
      }
    }
  }

  private func pump() {
    // Nobody waits for a connection that would carry nothing.
    if let link, !machine.isOpen, shared.campaigns.isDraining, shared.campaigns.isCancelled { link.close() }
    var batches = 0
    while true {
      let published = ring.published
      roomMade()
      let step = machine.next(input(published: published), walk: ring)
      carryOutEffects()
      switch step {
      case .dial:
        if !isWaitingToDial, !isShutDown {
          isWaitingToDial = true
          report(.wantsConnection(self))
        }
        return
      case .pack(let from, let last):
        let to = permitted(through: last)
        // The journal wakes the lane.
        guard from < to else { return sleep(until: nil, seen: published) }
        if let deadline = batchDeadline(from: from, to: to) { return sleep(until: deadline, seen: published) }
        pack(from: from, to: to)
        batches += 1
        if batches == Self.batchesPerTurn { return requestPump() }
      case .probe(let identifier):
        packer.clear()
        packer.packProbe(command, identifier: identifier)
        machine.probed(now: loop.now)
        sendPacked()
      case .leave:
        link?.close()
      case .wait(let deadline):
        return sleep(until: deadline, seen: published)
      }
    }
  }

  private func input(published: UInt64) -> LaneMachine.Input {
    let now = loop.now
    return LaneMachine.Input(
      now: now, published: published, freeBlockCount: ring.freeBlockCount, blockCountLimit: ring.blockCountLimit, isWritable: link?.isWritable ?? false,
      acknowledged: acknowledged(now: now),
      isDraining: shared.campaigns.isDraining, mayDialAhead: !shared.campaigns.isDraining && !isShutDown, isCancelled: shared.campaigns.isCancelled)
  }

  /// How much of what was sent on the present connection the peer's system had acknowledged, at most a moment ago: asking is a system call, and the machine
  /// counts in longer times.
  private func acknowledged(now: Instant) -> UInt64 {
    guard let link else { return 0 }
    if let seen = lastAcknowledged, seen.link === link, now < seen.at + Self.acknowledgementAge { return seen.byteCount }
    let handedOver = link.handedOverByteCount
    let byteCount = handedOver - min(handedOver, UInt64(clamping: link.unacknowledgedByteCount))
    lastAcknowledged = (link, byteCount, now)
    return byteCount
  }

  private func sleep(until deadline: Instant?, seen published: UInt64) {
    if !idle.sleep(self, until: deadline, seen: published) { requestPump() }
  }

  func timerFired() {
    idle.woke()
    requestPump()
  }

  // MARK: Permission

  /// How far of what the machine would send the journal lets it; asks for the rest.
  private func permitted(through end: UInt64) -> UInt64 {
    // What was cancelled is not sent, and needs nobody's leave to go.
    guard intentGate != nil, !shared.campaigns.isCancelled else { return end }
    requestIntent()
    return mayResend() ? min(end, intentGate?.through ?? end) : 0
  }

  /// False until the journal is sure of what is in doubt. After a connection that ended without a
  /// word, the lane has nothing else to send.
  @discardableResult
  private func mayResend() -> Bool {
    intentGate?.mayResend { [loop] in loop.execute { self.assumeIsolated { $0.intentGranted() } } } ?? true
  }

  private func requestIntent() {
    let backlog = IntentGate.Backlog(sent: machine.sent, published: ring.published, step: intentStep)
    intentGate?.ask(backlog, walk: ring) { [loop] in loop.execute { self.assumeIsolated { $0.intentGranted() } } }
  }

  /// The next connection is to find the intent durable that it needs.
  private func rewindIntent(to position: UInt64) {
    intentGate?.rewind(to: position)
    if !shared.campaigns.isCancelled { requestIntent() }
  }

  private func intentGranted() {
    intentGate?.granted()
    requestPump()
  }

  // MARK: Sending

  /// Until when the frames wait for company, if they do.
  private func batchDeadline(from: UInt64, to: UInt64) -> Instant? {
    guard let link else { return nil }
    // A notification with a payload of its own takes about as many bytes on the wire as in the ring; of the others the frame's size is known.
    let waiting = Int(clamping: to - from) * max(NotificationRing.blockByteCount, recorder.ledger?.frames.frameByteCount ?? 0)
    switch batchTimer.decide(waiting: waiting, socketIsIdle: link.isIdle, now: loop.now) {
    case .write: return nil
    case .wait(let deadline): return deadline
    }
  }

  private func pack(from: UInt64, to: UInt64) {
    packer.clear()
    let now = loop.now
    let unixSeconds = loop.unixSeconds
    let isResend = from < machine.highWater
    var position = from
    var packedCount = 0
    while position < to, !packer.isFull {
      let record = ring.record(at: position)
      guard record.isNotification else {
        let end = position + record.blockCount
        let kind = FramePacker.Run.Kind.padding
        took(FramePacker.Run(kind: kind, end: end, lastStart: position, count: 0), campaign: 0, fate: kind.fate, now: now)
        position = end
        continue
      }
      let ledger = recorder.ledger(of: record.campaign)
      if ledger.isCancelled || link == nil {
        let run = skipCancelled(from: position, to: to, campaign: record.campaign, abandoned: record.mayHaveArrived)
        took(run, campaign: record.campaign, fate: record.mayHaveArrived ? .abandoned : .cancelled, now: now)
        position = run.end
        continue
      }
      guard let run = packer.pack(from: position, to: to, ring: ring, frames: ledger.frames, now: unixSeconds) else { break }
      took(run, campaign: record.campaign, fate: run.kind.fate, now: now)
      if run.kind == .packed { packedCount += run.count }
      if isResend, run.kind == .packed { recorder.resent(run.count, of: ledger) }
      position = run.end
    }
    sendPacked()
    if let observer = recorder.observer, packedCount > 0 {
      let batch = LaneBatch(
        ring: ring, positions: from..<position, count: packedCount, byteCount: packer.byteCount, isResend: isResend, now: loop.now)
      observer.wrote(batch)
    }
    batchTimer.wrote()
    carryOutEffects()
    roomMade()
  }

  private func sendPacked() {
    guard let link, packer.byteCount > 0 else { return }
    unsafe link.send(packer.bytes)
    machine.handedOver(through: link.handedOverByteCount)
  }

  private func took(_ run: FramePacker.Run, campaign: UInt32, fate: ResendWindow.Fate, now: Instant) {
    ring.setSent(run.end)
    machine.packed(to: run.end, lastStart: run.lastStart, count: run.count, campaign: campaign, fate: fate, now: now)
  }

  /// The neighbours that share one fate without being sent.
  private func skipCancelled(from: UInt64, to: UInt64, campaign: UInt32, abandoned: Bool) -> FramePacker.Run {
    var run = FramePacker.Run(kind: .packed, end: from, lastStart: from, count: 0)
    while run.end < to {
      let record = ring.record(at: run.end)
      if record.isNotification {
        guard record.campaign == campaign, record.mayHaveArrived == abandoned else { break }
        run.count += 1
        run.lastStart = run.end
      }
      run.end += record.blockCount
    }
    return run
  }

  // MARK: Results

  private func carryOutEffects() {
    let effects = machine.takeEffects()
    growthHold.update(machine.isSearching, of: shared.growth)
    guard let effects else { return }
    if !effects.mayHaveArrived.isEmpty { nowInDoubt(effects.mayHaveArrived) }
    recorder.settle(effects.settlements)
    // What is condemned after its last connection has gone counts as sent once more.
    if machine.settled > ring.sent { ring.setSent(machine.settled) }
    if machine.settled > ring.settled { ring.settle(through: machine.settled) }
    if effects.hasRewound { ring.setSent(machine.sent) }
    if let position = effects.discardedFrom { rewindIntent(to: position) }
    if effects.madeProgress { shared.status.progressed() }
    if effects.isUnresponsive { endCause = "the gateway closes every connection, even one that carries nothing" }
    roomMade()
  }

  /// The next connection is to find that durable.
  private func nowInDoubt(_ ranges: [Range<UInt64>]) {
    for range in ranges { recorder.markMayHaveArrived(range) }
    intentGate?.doubted()
    if !shared.campaigns.isCancelled { mayResend() }
  }

  /// Measures how fast the backlog is sent, and tells readers that wait for room.
  private func roomMade() {
    let now = loop.now
    backlog.update(
      published: ring.published, done: machine.progress(now: now), frameByteCount: recorder.ledger?.frames.frameByteCount,
      now: now)
    shared.scheduler.roomMade(in: self)
  }

  /// Its connections end in refusals: what they have taught helps the other lanes, and what waits here
  /// may be sooner sent by them.
  private func handOver() {
    let statistics = machine.refusalStatistics
    shared.growth.refusalStatistics = statistics
    roomMade()
    let smallest = Self.smallestShare(statistics, isDraining: shared.campaigns.isDraining)
    shareBacklog(notUnder: smallest, from: machine.sent, highWater: machine.highWater) { [recorder] count, ledger in
      recorder.resent(count, of: ledger)
    }
    let held = backlog.backlog(of: ring)
    if held > backlog.blockCount {
      shared.foundSurplus(for: statistics.usefulLaneCount(for: held, within: BacklogLimit.target), now: loop.now)
    } else if !shared.campaigns.isDraining, !shared.scheduler.lanes.contains(where: { $0 !== self && $0.isSpare }) {
      report(.lacksSpare)
    }
  }

  // MARK: LinkDelegate, on the loop

  nonisolated func linkOpened(_ link: any Link) {
    assumeIsolated { $0.opened(link) }
  }

  nonisolated func link(_ link: any Link, received bytes: UnsafeRawBufferPointer) {
    // The call comes on this actor's own executor and ends before the buffer does.
    nonisolated(unsafe) let bytes = unsafe bytes
    assumeIsolated { unsafe $0.received(link, bytes) }
  }

  nonisolated func link(_ link: any Link, isWritable: Bool) {
    assumeIsolated { $0.writabilityChanged(link, isWritable) }
  }

  nonisolated func linkClosed(_ link: any Link, reason: LinkClosure) {
    assumeIsolated { $0.closed(link, reason) }
  }

  private func opened(_ link: any Link) {
    guard link === self.link else { return }
    let isFirst = !machine.hasBeenOpen
    if isFirst { machine.learned(shared.growth.refusalStatistics) }
    machine.opened(now: loop.now)
    backlog.isConnected = true
    report(.opened(isFirst: isFirst))
    roomMade()
    requestPump()
  }

  private func received(_ link: any Link, _ bytes: UnsafeRawBufferPointer) {
    guard link === self.link else { return }
    switch unsafe decoder.consume(bytes) {
    case .needMore: return machine.heardPart()
    case .response(let response): machine.responded(response, now: loop.now, walk: ring)
    case .malformed:
      endCause = "the gateway sent bytes that are no error response"
      machine.respondedMalformed(walk: ring)
    }
    carryOutEffects()
    link.close()
  }

  private func writabilityChanged(_ link: any Link, _ isWritable: Bool) {
    guard link === self.link else { return }
    if isWritable { requestPump() }
  }

  private func closed(_ link: any Link, _ reason: LinkClosure) {
    guard link === self.link else { return }
    self.link = nil
    backlog.isConnected = false
    lastAcknowledged = nil
    let closure = machine.hasWorked ? reason.onWorkingConnection : reason
    machine.closed(reason.forLane, now: loop.now, walk: ring)
    carryOutEffects()
    let ending = closure.ending(failures: machine.failures)
    shared.status.ended(ending, cause: endCause ?? reason.cause, nextTryAt: machine.retryAt, now: loop.now)
    endCause = nil
    report(.ended(ending))
    if machine.canHandOver { handOver() }
    if machine.endedIdle, ring.published == ring.settled { report(.idled(self)) }
    requestPump()
  }
}

extension FramePacker.Run.Kind {
  fileprivate var fate: ResendWindow.Fate {
    switch self {
    case .packed: .sent
    case .expired: .expired
    case .expiredInDoubt: .abandoned
    case .padding: .cancelled
    }
  }
}
