package import PushTransport
internal import PushWire

/// One slot of an app's pool: a ring, at most one live connection, and the machine that decides for both. Bound to one event loop.
///
/// The lane outlives its connections; the ring is its resend window. The shell here only carries out what ``LaneMachine`` decides.
package actor Lane: LinkDelegate {
  /// What the app's actor hears of a lane.
  enum Event: Sendable {
    case wantsConnection(Lane)
    case opened
    case ended(PoolMachine.Ending)
    case progress
    case starved
  }

  nonisolated let ring: NotificationRing
  nonisolated let loop: any Loop
  /// The lane's number in the journal, if there is one.
  nonisolated let journalNumber: UInt64?
  package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.executor.asUnownedSerialExecutor() }

  private let command: Command
  private let dialer: any Dialer
  let intake: Intake
  private let report: @Sendable (Event) -> Void
  private let observer: (any LaneObserver)?
  private var machine: LaneMachine
  private var packer: FramePacker
  private var permission: SendPermission?
  private var batchTimer: BatchTimer
  private var decoder = ErrorResponseDecoder()
  private var link: (any Link)?
  private var lastAcknowledged: (link: any Link, byteCount: UInt64, at: Instant)?
  private var ledger: CampaignLedger?
  private var isWaitingForPermission = false
  private var isPumpScheduled = false
  private var isShutDown = false
  private var timer: (deadline: Instant, handle: any LoopTimer)?

  /// After so many batches the loop gets a chance to serve its other lanes and read its sockets.
  private static let batchesPerTurn = 4
  private static let acknowledgementAge = Duration.milliseconds(1)
  /// A ring that has been empty for so long gives its memory back.
  private static let ringIdleness = Duration.seconds(1)
  private var emptySince: Instant?

  init(
    configuration: AppConfiguration, loop: any Loop, dialer: any Dialer, intake: Intake, budget: RingBudget?, seed: UInt64,
    report: @escaping @Sendable (Event) -> Void
  ) {
    self.loop = loop
    self.dialer = dialer
    self.intake = intake
    self.report = report
    observer = configuration.observer
    command = configuration.command
    ring = NotificationRing(blockCount: configuration.policy.ringBlockCount, budget: budget)
    machine = LaneMachine(policy: configuration.policy, seed: seed)
    packer = FramePacker(byteCountBound: configuration.batchByteCount, buffers: loop.buffers)
    permission = intake.journal.map { SendPermission(journal: $0, lane: $0.addLane(app: intake.app)) }
    journalNumber = permission?.lane
    batchTimer = BatchTimer(byteCountBound: configuration.batchByteCount, delay: configuration.batchDelay)
  }

  // MARK: From outside the loop

  /// Something was published, or has changed that the machine should know of.
  nonisolated func wake() {
    loop.execute { self.assumeIsolated { $0.pump() } }
  }

  /// To be called after a claim was published: wakes the lane only if it sleeps.
  nonisolated func published() {
    if ring.takeWakeUp() { wake() }
  }

  /// The app lets this lane connect.
  func connect() {
    isWaitingForPermission = false
    guard !isShutDown, link == nil, machine.isDisconnected else { return }
    machine.dialled()
    decoder = ErrorResponseDecoder()
    link = dialer.dial(on: loop, delegate: self)
  }

  /// Closes the connection for good. What is still in the window then counts by the app's policy.
  func shutDown() {
    isShutDown = true
    link?.close()
  }

  // MARK: The pump

  private func pump() {
    isPumpScheduled = false
    // Nobody waits for a connection that would carry nothing.
    if let link, !machine.isOpen, intake.isDraining, intake.isCancelled { link.close() }
    var batches = 0
    while true {
      let published = ring.published
      let step = machine.next(surroundings(published: published), walk: ring)
      carryOutEffects()
      switch step {
      case .dial:
        if !isWaitingForPermission, !isShutDown {
          isWaitingForPermission = true
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
        if batches == Self.batchesPerTurn { return continueLater() }
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

  private func surroundings(published: UInt64) -> LaneMachine.Surroundings {
    let now = loop.now
    return LaneMachine.Surroundings(
      now: now, published: published, freeBlockCount: ring.freeBlockCount, blockCountLimit: ring.blockCountLimit, isWritable: link?.isWritable ?? false,
      acknowledged: acknowledged(now: now),
      isDraining: intake.isDraining, isCancelled: intake.isCancelled)
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

  private func continueLater() {
    guard !isPumpScheduled else { return }
    isPumpScheduled = true
    wake()
  }

  private func sleep(until deadline: Instant?, seen published: UInt64) {
    if let deadline { arm(deadline) }
    lookAfterMemory(seen: published)
    if !ring.sleep(seen: published) { continueLater() }
  }

  private func lookAfterMemory(seen published: UInt64) {
    guard published == ring.settled else {
      emptySince = nil
      return
    }
    guard ring.isBusy else { return }
    let now = loop.now
    let since = emptySince ?? now
    emptySince = since
    if now < since + Self.ringIdleness {
      arm(since + Self.ringIdleness)
    } else if ring.becameIdle() {
      // Whoever came meanwhile has found no room.
      intake.openDoors()
    }
  }

  /// A timer that is due earlier than needed stays: it only asks the machine once more.
  private func arm(_ deadline: Instant) {
    if let timer, timer.deadline <= deadline { return }
    timer?.handle.cancel()
    let handle = loop.schedule(at: deadline) { self.assumeIsolated { $0.timerFired() } }
    timer = (deadline, handle)
  }

  private func timerFired() {
    timer = nil
    pump()
  }

  // MARK: Permission

  /// How far of what the machine would send the journal lets it; asks for the rest.
  private func permitted(through end: UInt64) -> UInt64 {
    // What was cancelled is not sent, and needs nobody's leave to go.
    guard permission != nil, !intake.isCancelled else { return end }
    permission?.ask(through: end) { [loop] in loop.execute { self.assumeIsolated { $0.permissionCame() } } }
    return min(end, permission?.through ?? end)
  }

  private func permissionCame() {
    permission?.came()
    pump()
  }

  // MARK: Sending

  /// Until when the frames wait for company, if they do.
  private func batchDeadline(from: UInt64, to: UInt64) -> Instant? {
    guard let link else { return nil }
    // A notification with a payload of its own takes about as many bytes on the wire as in the ring; of the others the frame's size is known.
    let waiting = Int(clamping: to - from) * max(NotificationRing.blockByteCount, ledger?.frames.frameByteCount ?? 0)
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
      let ledger = books(of: record.campaign)
      if ledger.isCancelled || link == nil {
        let run = skipCancelled(from: position, to: to, campaign: record.campaign, abandoned: record.mayHaveArrived)
        took(run, campaign: record.campaign, fate: record.mayHaveArrived ? .abandoned : .cancelled, now: now)
        position = run.end
        continue
      }
      guard let run = packer.pack(from: position, to: to, ring: ring, frames: ledger.frames, now: unixSeconds) else { break }
      took(run, campaign: record.campaign, fate: run.kind.fate, now: now)
      if run.kind == .packed { packedCount += run.count }
      if isResend, run.kind == .packed {
        ledger.resent(run.count)
        if let number = ledger.journalNumber { intake.journal?.record(.resent(campaign: number, count: run.count)) }
      }
      position = run.end
    }
    sendPacked()
    if let observer, packedCount > 0 {
      let batch = LaneBatch(
        ring: ring, positions: from..<position, count: packedCount, byteCount: packer.byteCount, isResend: isResend, now: loop.now)
      observer.wrote(batch)
    }
    batchTimer.wrote()
    carryOutEffects()
    intake.roomMade(in: ring)
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
    guard let effects else { return }
    for range in effects.mayHaveArrived { markMayHaveArrived(range) }
    settle(effects.settlements)
    if machine.settled > ring.settled { ring.settle(through: machine.settled) }
    if effects.hasRewound { ring.setSent(machine.sent) }
    if effects.madeProgress { report(.progress) }
    if effects.isUnresponsive { report(.ended(.unresponsive)) }
    intake.roomMade(in: ring)
  }

  /// Listed first, then journaled, then counted: after a crash the list may say too much, which the journal shows, but never too little.
  private func settle(_ settlements: [Settlement]) {
    for settlement in settlements where settlement.count > 0 { books(of: settlement.campaign).report(settlement, ring: ring) }
    journal(settlements)
    if let observer {
      for settlement in settlements where settlement.count > 0 { observer.settled(settlement, ring: ring, now: loop.now) }
    }
    for settlement in settlements where settlement.count > 0 { books(of: settlement.campaign).settled(settlement.count, settlement.outcome) }
  }

  /// Neighbouring runs with one outcome are one record: a watermark.
  private func journal(_ settlements: [Settlement]) {
    guard let journal = intake.journal, let journalNumber else { return }
    var joined: Settlement?
    func write(_ settlement: Settlement) {
      let ledger = books(of: settlement.campaign)
      guard let campaign = ledger.journalNumber else { return }
      let run = JournalledRun(lane: journalNumber, range: settlement.from..<settlement.to, campaign: campaign, count: settlement.count)
      switch settlement.outcome {
      case .cancelled:
        journal.record(.returned(run, isInDoubt: false))
      case .unknown where ledger.isCancelled && machine.policy.onUnknown == .resend:
        // Not sent again because the sending was stopped: that is for whoever goes on with it.
        journal.record(.returned(run, isInDoubt: true))
      default:
        journal.record(.settled(run, settlement.outcome))
      }
    }
    for settlement in settlements where settlement.count > 0 {
      if let before = joined, before.campaign == settlement.campaign, before.outcome == settlement.outcome {
        joined?.to = settlement.to
        joined?.count += settlement.count
      } else {
        if let before = joined { write(before) }
        joined = settlement
      }
    }
    if let joined { write(joined) }
  }

  /// Counts each notification once, however often it is sent again.
  private func markMayHaveArrived(_ range: Range<UInt64>) {
    var counts: [UInt32: Int] = [:]
    ring.forEachNotification(from: range.lowerBound, to: range.upperBound) { _, record in
      guard !record.mayHaveArrived else { return }
      record.mayHaveArrived = true
      counts[record.campaign, default: 0] += 1
    }
    for (campaign, count) in counts {
      let ledger = books(of: campaign)
      ledger.mayHaveArrivedTwice(count)
      if let lane = journalNumber, let number = ledger.journalNumber {
        intake.journal?.record(.doubted(JournalledRun(lane: lane, range: range, campaign: number, count: count)))
      }
    }
  }

  /// A campaign stays known until every one of its notifications has left the rings.
  private func books(of campaign: UInt32) -> CampaignLedger {
    if let ledger, ledger.frames.campaign == campaign { return ledger }
    guard let found = intake.ledger(campaign) else { preconditionFailure("a notification of a campaign that was forgotten") }
    ledger = found
    return found
  }

  // MARK: LinkDelegate, on the loop

  package nonisolated func linkOpened(_ link: any Link) {
    assumeIsolated { $0.opened(link) }
  }

  package nonisolated func link(_ link: any Link, received bytes: UnsafeRawBufferPointer) {
    // The call comes on this actor's own executor and ends before the buffer does.
    nonisolated(unsafe) let bytes = unsafe bytes
    assumeIsolated { unsafe $0.received(link, bytes) }
  }

  package nonisolated func link(_ link: any Link, isWritable: Bool) {
    assumeIsolated { $0.writabilityChanged(link, isWritable) }
  }

  package nonisolated func linkClosed(_ link: any Link, reason: LinkClosure) {
    assumeIsolated { $0.closed(link, reason) }
  }

  private func opened(_ link: any Link) {
    guard link === self.link else { return }
    machine.opened(now: loop.now)
    report(.opened)
    pump()
  }

  private func received(_ link: any Link, _ bytes: UnsafeRawBufferPointer) {
    guard link === self.link else { return }
    switch unsafe decoder.consume(bytes) {
    case .needMore: return
    case .response(let response): machine.responded(response, walk: ring)
    case .malformed: machine.respondedWithGarbage(walk: ring)
    }
    carryOutEffects()
    link.close()
  }

  private func writabilityChanged(_ link: any Link, _ isWritable: Bool) {
    guard link === self.link else { return }
    if isWritable { pump() }
  }

  private func closed(_ link: any Link, _ reason: LinkClosure) {
    guard link === self.link else { return }
    self.link = nil
    lastAcknowledged = nil
    machine.closed(reason.forLane, now: loop.now, walk: ring)
    carryOutEffects()
    report(.ended(ending(reason)))
    pump()
  }

  private func ending(_ reason: LinkClosure) -> PoolMachine.Ending {
    switch reason {
    case .unreachable(let text), .handshakeFailed(let text): .unreachable(text)
    case .credentialRefused(let text): .refused(text)
    case .byPeer, .byUs, .reset, .failed: machine.failures == 0 ? .ordinary : .fruitless
    }
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

extension LinkClosure {
  fileprivate var forLane: LaneClosure {
    switch self {
    case .byPeer, .reset, .failed, .unreachable, .handshakeFailed: .withoutAWord
    case .byUs: .byUs
    case .credentialRefused: .nothingWasRead
    }
  }
}
