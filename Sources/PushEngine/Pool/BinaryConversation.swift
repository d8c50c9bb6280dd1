internal import PushTransport
internal import PushWire

/// The binary protocol: frames in batches, and one error response at most. ``LaneMachine`` decides.
/// The ring is the resend window.
final class BinaryConversation: Conversation {
  private let context: LaneContext
  private let version: FrameVersion
  private let intentStep: Int
  private var machine: LaneMachine
  private var packer: FramePacker
  private var decoder = ErrorResponseDecoder()
  private var lastAcknowledged: (byteCount: UInt64, at: Instant)?
  /// Why the present connection ends, if known before it closes.
  private var endCause: String?
  /// The credential was replaced after the present dial began.
  private var isRenewalDue = false

  private static let acknowledgementAge = Duration.milliseconds(1)

  init(_ configuration: AppRules, _ context: LaneContext, seed: UInt64) {
    self.context = context
    version = configuration.command
    intentStep = configuration.intentStep
    machine = LaneMachine(policy: configuration.policy, seed: seed)
    machine.learned(context.shared.growth.refusalStatistics)
    packer = FramePacker(byteCountBound: configuration.batchByteCount, buffers: context.loop.buffers)
  }

  private var ring: NotificationRing { context.ring }
  private var loop: any Loop { context.loop }
  private var shared: AppShared { context.shared }

  var isDisconnected: Bool { machine.isDisconnected }
  var isOpen: Bool { machine.isOpen }
  var endedIdle: Bool { machine.endedIdle }
  var progress: UInt64 { machine.progress(now: loop.now) }

  // MARK: Steps

  func step(published: UInt64) -> LaneStep {
    context.roomMade(done: progress)
    switch perform({ machine.next(input(published: published), walk: ring) }) {
    case .dial: return .dial
    case .pack(let from, let last):
      let to = context.permitted(through: last, sent: machine.sent, largestStep: intentStep)
      // After a silent close, only notifications in doubt can be sent. The journal wakes the lane.
      let mayResend = context.mayResend()
      guard from < to, mayResend else { return .sleep(until: nil) }
      if let deadline = context.batchDeadline(count: Int(clamping: to - from)) { return .sleep(until: deadline) }
      let (permitted, end): (Int, UInt64)
      switch context.permittedByRate(upTo: Int(clamping: to - from)) {
      case .all(let count): (permitted, end) = (count, to)
      case .part(let count): (permitted, end) = (count, ring.position(after: count, from: from, limit: to))
      case .later(let instant): return .sleep(until: instant)
      }
      let packedCount = perform { pack(from: from, to: end) }
      context.giveBack(permitted - packedCount)
      context.roomMade(done: progress)
      return .wrote
    case .probe(let identifier):
      packer.clear()
      packer.packProbe(version, identifier: identifier)
      machine.probed(now: loop.now)
      sendPacked()
      return .proceed
    case .leave:
      context.link?.close()
      return .proceed
    case .wait(let deadline): return .sleep(until: deadline)
    }
  }

  private func input(published: UInt64) -> LaneMachine.Input {
    let now = loop.now
    let isDraining = shared.campaigns.isDraining
    return LaneMachine.Input(
      now: now, published: published, freeBlockCount: ring.freeBlockCount, blockCountLimit: ring.blockCountLimit,
      isWritable: context.link?.isWritable ?? false, acknowledged: acknowledged(now: now), isDraining: isDraining,
      mayDialAhead: !isDraining && !context.isShutDown, isCancelled: shared.campaigns.isCancelled)
  }

  /// How much of what was sent on the present connection the peer's system has acknowledged. The
  /// value may be slightly old: asking is a system call, and the machine works with longer times.
  private func acknowledged(now: Instant) -> UInt64 {
    guard let link = context.link else { return 0 }
    if let seen = lastAcknowledged, now < seen.at + Self.acknowledgementAge { return seen.byteCount }
    let handedOver = link.handedOverByteCount
    let byteCount = handedOver - min(handedOver, UInt64(clamping: link.unacknowledgedByteCount))
    lastAcknowledged = (byteCount, now)
    return byteCount
  }

  // MARK: Packing

  /// - Returns: how many notifications were packed.
  private func pack(from: UInt64, to: UInt64) -> Int {
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
        took(FramePacker.Run(kind: .padding, end: end, lastStart: position, count: 0), campaign: 0, now: now)
        position = end
        continue
      }
      let ledger = context.recorder.ledger(of: record.campaign)
      if ledger.isCancelled || context.link == nil {
        let isAbandoned = record.mayHaveArrived
        let run = skipCancelled(from: position, to: to, campaign: record.campaign, abandoned: isAbandoned)
        took(run, campaign: record.campaign, as: isAbandoned ? .abandoned : .cancelled, now: now)
        position = run.end
        continue
      }
      let run = packer.pack(
        from: position, to: to, ring: ring, frames: ledger.frames, now: unixSeconds, oldEnd: ledger.ages.end(now: now))
      guard let run else { break }
      took(run, campaign: record.campaign, now: now)
      if run.kind == .packed { packedCount += run.count }
      if isResend, run.kind == .packed { context.recorder.resent(run.count, of: ledger) }
      position = run.end
    }
    sendPacked()
    if let observer = context.recorder.observer, packedCount > 0 {
      let batch = LaneBatch(
        ring: ring, positions: from..<position, count: packedCount, byteCount: packer.byteCount, isResend: isResend,
        now: loop.now)
      observer.wrote(batch)
    }
    context.batchTimer.wrote()
    return packedCount
  }

  private func sendPacked() {
    guard let link = context.link, packer.byteCount > 0 else { return }
    unsafe link.send(packer.bytes)
    machine.handedOver(through: link.handedOverByteCount)
  }

  private func took(_ run: FramePacker.Run, campaign: UInt32, as fate: ResendWindow.Fate? = nil, now: Instant) {
    ring.setSent(run.end)
    machine.packed(
      to: run.end, lastStart: run.lastStart, count: run.count, campaign: campaign, fate: fate ?? run.kind.fate,
      now: now)
  }

  /// Neighbouring notifications that leave the ring for the same reason without being sent.
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

  // MARK: Effects

  /// Passes an event to the machine and carries out its effects at once. Every event with effects
  /// goes through here.
  private func perform<Result>(_ event: () -> Result) -> Result {
    let result = event()
    let effects = machine.takeEffects()
    context.update(isSearching: machine.isSearching)
    if let effects { carryOut(effects) }
    return result
  }

  private func carryOut(_ effects: LaneMachine.Effects) {
    context.doubted(effects.mayHaveArrived)
    // This must be durable before the next connection sends again.
    if !effects.mayHaveArrived.isEmpty { _ = context.mayResend() }
    context.recorder.settle(effects.settlements)
    // A notification that is rejected after its last connection has closed counts as sent.
    if machine.settled > ring.sent { ring.setSent(machine.settled) }
    if machine.settled > ring.settled { ring.settle(through: machine.settled) }
    if effects.hasRewound { ring.setSent(machine.sent) }
    if let position = effects.discardedFrom {
      context.rewindIntent(to: position, sent: machine.sent, largestStep: intentStep)
    }
    if effects.madeProgress { shared.status.progressed() }
    if effects.isUnresponsive { endCause = "the gateway closes every connection, even one that carries nothing" }
    context.roomMade(done: progress)
  }

  // MARK: Connections

  func renewConnection(tokens: ProviderTokenSource?) {
    // A connection that is being opened still uses the old credential.
    isRenewalDue = !machine.isOpen && !machine.isDisconnected
    machine.renewConnection()
  }

  func finish() { machine.renewConnection() }

  func halt(_ isHalted: Bool) {
    if isHalted { renewConnection(tokens: nil) } else { machine.resume() }
  }

  func prepareToDial() -> Bool {
    isRenewalDue = false
    machine.dialled()
    decoder = ErrorResponseDecoder()
    return true
  }

  func opened() {
    if !machine.hasBeenOpen { machine.learned(shared.growth.refusalStatistics) }
    machine.opened(now: loop.now)
    if isRenewalDue { machine.renewConnection() }
  }

  func received(_ bytes: UnsafeRawBufferPointer) -> AfterReceiving {
    switch unsafe decoder.consume(bytes) {
    case .needMore:
      machine.heardPart()
      return .waitForMore
    case .response(let response): perform { machine.responded(response, now: loop.now, walk: ring) }
    case .malformed:
      endCause = "the gateway sent bytes that are no error response"
      perform { machine.respondedMalformed(walk: ring) }
    }
    return .close
  }

  func closed(_ reason: LinkClosure) -> ConversationEnd {
    lastAcknowledged = nil
    // A refusal of a credential that has been replaced does not concern the next connection.
    let closure = machine.hasWorked || isRenewalDue ? reason.onWorkingConnection : reason
    perform { machine.closed(reason.forLane, now: loop.now, walk: ring) }
    defer { endCause = nil }
    return ConversationEnd(
      ending: closure.ending(failures: machine.failures), cause: endCause ?? reason.cause,
      evidence: endCause == nil ? reason.evidence : .failure, retryAt: machine.retryAt)
  }

  /// After refusals, other lanes use what this connection has learned, and take over notifications
  /// that they can send sooner.
  func handOver(from lane: Lane) {
    guard machine.canHandOver else { return }
    let statistics = machine.refusalStatistics
    shared.growth.refusalStatistics = statistics
    context.roomMade(done: progress)
    let isDraining = shared.campaigns.isDraining
    lane.shareBacklog(
      notUnder: Lane.smallestShare(statistics, isDraining: isDraining), from: machine.sent, highWater: machine.highWater
    ) { context.recorder.resent($0, of: $1) }
    let held = context.backlog.backlog(of: ring)
    if held > context.backlog.blockCount {
      shared.foundSurplus(for: statistics.usefulLaneCount(for: held, within: BacklogLimit.target), now: loop.now)
    } else if !isDraining, !shared.scheduler.lanes.contains(where: { $0 !== lane && $0.isSpare }) {
      context.report(.lacksSpare)
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
