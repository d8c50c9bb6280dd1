internal import PushTransport
internal import PushWire

/// A lane over HTTP/2: each notification is a request with an answer of its own. The shell here only carries out what ``RequestMachine`` decides.
///
/// What the peer has to say, and what the credential is, is in `RequestLane+Answers.swift`.
actor RequestLane: Lane, LinkDelegate {
  nonisolated let ring: NotificationRing
  nonisolated let loop: any Loop
  nonisolated let shared: AppShared
  nonisolated let backlog: BacklogGauge
  nonisolated let journalNumber: UInt64?
  nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.executor.asUnownedSerialExecutor() }

  let settings: HTTP2Settings
  private let dialer: any Dialer
  let report: @Sendable (LaneEvent) -> Void
  var machine: RequestMachine
  private var intentGate: IntentGate?
  private var batchTimer: BatchTimer
  private let batchByteCount: Int
  var recorder: SettlementRecorder
  private var idle: LaneIdle
  private var growthHold = GrowthHold()
  private(set) var link: (any Link)?
  private(set) var session: HTTP2ClientSession?
  var connectionTokens = ConnectionTokens()
  /// By position, what a 410 said of a device, until it is settled.
  var goneSince: [UInt64: UInt64] = [:]
  private var batch = RequestBatch()
  private var seenCancellations = 0
  private var isWaitingToDial = false
  private var isPumpScheduled = false
  private var isShutDown = false
  private var hasBeenOpen = false

  /// After so many writes the loop gets a chance to serve its other lanes and read its sockets.
  private static let writesPerTurn = 4

  init(
    configuration: AppConfiguration, settings: HTTP2Settings, isKept: Bool, loop: any Loop, dialer: any Dialer, shared: AppShared, budget: RingBudget?,
    seed: UInt64, report: @escaping @Sendable (LaneEvent) -> Void
  ) {
    self.settings = settings
    self.loop = loop
    self.dialer = dialer
    self.shared = shared
    backlog = BacklogGauge(batchByteCount: configuration.batchByteCount, largest: shared.backlogBlockCountLimit)
    self.report = report
    ring = NotificationRing(blockCount: configuration.policy.ringBlockCount, budget: budget)
    machine = RequestMachine(policy: configuration.policy, requests: settings.policy, isKept: isKept, seed: seed)
    intentGate = shared.journal.map { IntentGate(journal: $0, lane: $0.addLane(app: shared.app)) }
    journalNumber = intentGate?.lane
    batchTimer = BatchTimer(byteCountBound: configuration.batchByteCount, delay: configuration.batchDelay)
    batchByteCount = configuration.batchByteCount
    recorder = SettlementRecorder(configuration: configuration, ring: ring, loop: loop, shared: shared, journalNumber: journalNumber, isOrdered: false)
    idle = LaneIdle(ring: ring, loop: loop, shared: shared)
  }

  func connect() {
    isWaitingToDial = false
    guard !isShutDown, link == nil, machine.isDisconnected else { return }
    switch authorize() {
    case .ready:
      machine.dialled()
      link = dialer.dial(on: loop, delegate: self)
    case .later(let instant):
      machine.postponed(until: instant)
      shared.status.held("waiting for a new provider token", until: instant, now: loop.now)
      requestPump()
    case .never(let reason):
      pauseApp(reason)
    }
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
    noticeCancellations()
    renewAuthorization()
    var writes = 0
    while true {
      let published = ring.published
      measureBacklog(published: published)
      let step = machine.next(input(published: published))
      carryOutEffects()
      switch step {
      case .dial:
        if !isWaitingToDial, !isShutDown {
          isWaitingToDial = true
          report(.wantsConnection(self))
        }
        return
      case .again(let entry):
        // The journal wakes the lane.
        guard mayResend(entry) else { return sleep(until: machine.deadline, seen: published) }
        guard take(entry, ring.record(at: entry.position), now: loop.now, unixSeconds: loop.unixSeconds) else { return continueLater() }
      case .take(let from, let last, let count):
        let to = permitted(through: last, streamLimit: machine.inFlightCount + min(count, Self.intentLimit))
        // The journal wakes the lane.
        guard from < to else { return sleep(until: machine.deadline, seen: published) }
        if let deadline = batchDeadline(count: min(count, Int(clamping: to - from))) { return sleep(until: deadline, seen: published) }
        guard take(from: from, to: to, count: count) else { return continueLater() }
      case .cancel(let streamID):
        session?.cancel(streamID)
      case .ping(let number):
        session?.ping(number)
      case .leave:
        session?.close()
        flush()
        link?.close()
      case .wait(let deadline):
        // What is given out may end streams, and make room for others.
        if !flush() { return sleep(until: deadline, seen: published) }
      }
      if batch.byteCount >= batchByteCount {
        flush()
        writes += 1
        if writes == Self.writesPerTurn { return continueLater() }
      }
    }
  }

  private func input(published: UInt64) -> RequestMachine.Input {
    RequestMachine.Input(
      now: loop.now, published: published, isWritable: link?.isWritable ?? false, availableStreamCount: session?.availableStreamCount ?? 0,
      acceptsRequests: session?.acceptsRequests ?? true, isCancelled: shared.campaigns.isCancelled)
  }

  /// Nothing that was made ready stays here.
  private func continueLater() {
    flush()
    requestPump()
  }

  private func sleep(until deadline: Instant?, seen published: UInt64) {
    flush()
    let wasBusy = ring.isBusy
    if !idle.sleep(self, until: deadline, seen: published) { return continueLater() }
    if wasBusy, !ring.isBusy { machine.becameIdle() }
  }

  func timerFired() {
    idle.woke()
    requestPump()
  }

  private func noticeCancellations() {
    let count = shared.campaigns.cancellationCount
    guard count != seenCancellations else { return }
    seenCancellations = count
    machine.cancelled { recorder.ledger(of: $0).isCancelled }
  }

  // MARK: Permission

  /// How far of what the machine would send the journal lets it; asks for more.
  ///
  /// - Parameter streamLimit: so many requests may be under way at once.
  private func permitted(through end: UInt64, streamLimit: Int) -> UInt64 {
    // What was cancelled is not sent, and needs no durable intent.
    guard intentGate != nil, !shared.campaigns.isCancelled else { return end }
    let step = min(streamLimit + Self.intentMargin, Self.intentLimit)
    let backlog = IntentGate.Backlog(sent: machine.sent, published: ring.published, step: step)
    intentGate?.ask(backlog, walk: ring) { [loop] in loop.execute { self.assumeIsolated { $0.intentGranted() } } }
    return min(end, intentGate?.through ?? end)
  }

  /// False until the journal is sure that the notification is in doubt, if it is.
  private func mayResend(_ entry: RequestEntry) -> Bool {
    guard entry.isInDoubt, !shared.campaigns.isCancelled else { return true }
    return intentGate?.mayResend { [loop] in loop.execute { self.assumeIsolated { $0.intentGranted() } } } ?? true
  }

  /// Intents run ahead by as many requests as may be under way, and this many more: with few streams,
  /// answers come faster than the journal could follow.
  private static let intentMargin = 400
  /// And by no more than over the binary protocol.
  private static let intentLimit = 8192

  private func intentGranted() {
    intentGate?.granted()
    requestPump()
  }

  // MARK: Sending

  /// Until when the requests wait for company, if they do.
  private func batchDeadline(count: Int) -> Instant? {
    guard let link, batch.byteCount == 0 else { return nil }
    let waiting = max(1, count) * max(NotificationRing.blockByteCount, recorder.ledger?.frames.frameByteCount ?? 0)
    switch batchTimer.decide(waiting: waiting, socketIsIdle: link.isIdle, now: loop.now) {
    case .write: return nil
    case .wait(let deadline): return min(deadline, machine.deadline ?? deadline)
    }
  }

  /// Takes up to `count` notifications up, until the batch is full. False: the connection takes no more.
  private func take(from: UInt64, to: UInt64, count: Int) -> Bool {
    let now = loop.now
    let unixSeconds = loop.unixSeconds
    var position = from
    var left = count
    while position < to, left > 0, batch.byteCount < batchByteCount {
      let record = ring.record(at: position)
      let end = position + record.blockCount
      if record.isNotification {
        let entry = RequestEntry(position: position, end: end, campaign: record.campaign, isInDoubt: record.mayHaveArrived)
        guard take(entry, record, now: now, unixSeconds: unixSeconds) else { return false }
        left -= 1
      } else {
        machine.passedPadding(to: end)
      }
      position = end
    }
    carryOutEffects()
    return true
  }

  /// Makes a request of a notification, or passes it over where it is not to be sent any more. False: the connection takes no more.
  private func take(_ entry: RequestEntry, _ record: RingRecord, now: Instant, unixSeconds: UInt32) -> Bool {
    let ledger = recorder.ledger(of: entry.campaign)
    if ledger.isCancelled {
      machine.passed(entry, as: entry.isInDoubt ? .unknown : .cancelled)
      return true
    }
    if let expiration = record.expiration ?? ledger.frames.expiration, expiration != 0, expiration <= unixSeconds {
      machine.passed(entry, as: entry.isInDoubt ? .unknown : .expired)
      return true
    }
    if machine.pacesTokens, let until = machine.pacedUntil(record.tokenHash, now: now) {
      machine.passed(entry, until: until)
      return true
    }
    guard let session, let template = ledger.frames.request else { return false }
    let isAgain = entry.position < machine.sent
    var overrides = RequestOverrides()
    if !record.isPlain { record.override(&overrides) }
    let submission = unsafe session.submit(
      template, token: record.token, identifier: ledger.frames.identifier(of: record), overrides: overrides, tag: machine.nextTag)
    guard case .submitted(let streamID) = submission else {
      if submission == .finished { machine.goingAway() }
      return false
    }
    machine.submitted(entry, streamID: streamID, now: now)
    batch.add(entry, byteCount: ledger.frames.frameByteCount, isAgain: isAgain)
    if isAgain { recorder.resent(1, of: ledger) }
    return true
  }

  /// Gives the session's bytes to the link, as one write unless they are very many. False: there were none.
  @discardableResult
  func flush() -> Bool {
    guard let session, let link else { return false }
    var byteCount = 0
    while true {
      let bytes = unsafe session.output()
      guard bytes.count > 0 else { break }
      unsafe link.send(bytes)
      byteCount += bytes.count
    }
    if batch.count > 0 {
      if let observer = recorder.observer { batch.tell(observer, ring: ring, byteCount: byteCount, now: loop.now) }
      batch = RequestBatch()
      batchTimer.wrote()
      roomMade()
    }
    if session.failure != nil { link.close() }
    return byteCount > 0
  }

  // MARK: Results

  func carryOutEffects() {
    let effects = machine.takeEffects()
    growthHold.update(machine.isSearching, of: shared.growth)
    // Streams are refused also where the service has only just begun to allow more of them.
    if let trouble = effects?.trouble, trouble.cause != .streamRefused {
      shared.growth.hold(nextTryAt: trouble.nextTryAt, now: loop.now)
    }
    if let effects {
      for range in effects.mayHaveArrived { recorder.markMayHaveArrived(range) }
      if !effects.mayHaveArrived.isEmpty { intentGate?.doubted() }
      recorder.settle(effects.settlements, goneSince: goneSince)
      if !goneSince.isEmpty { goneSince.removeAll(keepingCapacity: true) }
    }
    if machine.sent > ring.sent { ring.setSent(machine.sent) }
    if machine.settled > ring.settled { ring.settle(through: machine.settled) }
    guard let effects else { return }
    if effects.madeProgress {
      shared.status.progressed()
    } else if let trouble = effects.trouble {
      shared.status.troubled(trouble.cause.description, nextTryAt: trouble.nextTryAt, now: loop.now)
    }
    if effects.answerCount > 0, let reason = shared.answered(effects.answerCount, bad: effects.badTokenCount) {
      pauseApp(reason)
    }
    if case .rejected(let reason) = effects.pausedBy { pauseApp("the service refuses this app: \(reason)") }
    roomMade()
  }

  /// Measures how fast the backlog is sent, and tells readers that wait for room.
  private func roomMade() {
    measureBacklog(published: ring.published)
    shared.scheduler.roomMade(in: self)
  }

  private func measureBacklog(published: UInt64) {
    backlog.update(published: published, done: machine.sent, frameByteCount: recorder.ledger?.frames.frameByteCount, now: loop.now)
  }

  /// Not a connection is at fault, but the credential, the topic or the tokens: the app stops, at once and not by way of its actor, which every lane may be ahead of.
  func pauseApp(_ reason: String) {
    machine.pause()
    shared.cancelAll(failure: reason)
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
    assumeIsolated { lane in
      if link === lane.link, isWritable { lane.requestPump() }
    }
  }

  nonisolated func linkClosed(_ link: any Link, reason: LinkClosure) {
    assumeIsolated { $0.closed(link, reason) }
  }

  private func opened(_ link: any Link) {
    guard link === self.link else { return }
    do throws(HTTP2Failure) {
      let session = try HTTP2ClientSession(options: settings.sessionOptions, buffers: loop.buffers)
      session.setAuthorization(connectionTokens.present?.authorization)
      connectionTokens.opened()
      self.session = session
    } catch {
      return link.close()
    }
    machine.opened(now: loop.now)
    backlog.isConnected = true
    report(.opened(isFirst: !hasBeenOpen))
    hasBeenOpen = true
    requestPump()
  }

  private func received(_ link: any Link, _ bytes: UnsafeRawBufferPointer) {
    guard link === self.link, let session else { return }
    machine.heard(now: loop.now)
    unsafe session.receive(bytes)
    takeEvents(of: session)
    carryOutEffects()
    requestPump()
  }

  private func closed(_ link: any Link, _ reason: LinkClosure) {
    guard link === self.link else { return }
    let now = loop.now
    session?.forEachOpenRequest { tag, _, wasSent in
      if !wasSent { machine.ended(tag, .unprocessed, now: now) }
    }
    let cause = cause(of: reason)
    // After bytes that are no HTTP/2 we close the link ourselves, but the peer has ended the connection.
    let closure = session?.failure == nil ? reason.forLane : .silent
    let hasHeard = machine.hasHeard
    self.link = nil
    backlog.isConnected = false
    session = nil
    batch = RequestBatch()
    machine.closed(closure, now: now)
    carryOutEffects()
    let ending = (hasHeard ? reason.onWorkingConnection : reason).ending(failures: machine.failures)
    shared.status.ended(ending, cause: cause, nextTryAt: machine.retryAt, now: now)
    report(.ended(ending))
    if machine.endedIdle, ring.published == ring.settled { report(.idled(self)) }
    requestPump()
  }
}

extension RequestMachine.Cause: CustomStringConvertible {
  package var description: String {
    switch self {
    case .refusal(let refusal): refusal.description
    case .noAnswer: "the service does not answer requests"
    case .streamReset: "the service resets the streams of requests"
    case .streamRefused: "the service refuses the streams of requests"
    case .meaninglessAnswer: "the service gives answers that the protocol does not know"
    }
  }
}

extension RingRecord {
  /// For telling device tokens apart that have to wait.
  var tokenHash: Int {
    var hasher = Hasher()
    unsafe hasher.combine(bytes: token)
    return hasher.finalize()
  }

  /// What it says otherwise than its campaign.
  fileprivate func override(_ overrides: inout RequestOverrides) {
    overrides.expiration = expiration
    overrides.priority = priority
    if unsafe collapseIdentifier.count > 0 { unsafe overrides.collapseIdentifier = unsafe collapseIdentifier }
    if unsafe payload.count > 0 { unsafe overrides.payload = unsafe payload }
  }
}

/// The requests that the next write will carry.
private struct RequestBatch {
  private(set) var count = 0
  /// An estimate, for deciding when it is full.
  private(set) var byteCount = 0
  private var againCount = 0
  private var positions: Range<UInt64>?

  mutating func add(_ entry: RequestEntry, byteCount added: Int, isAgain: Bool) {
    count += 1
    byteCount += added
    if isAgain {
      againCount += 1
    } else {
      positions = (positions?.lowerBound ?? entry.position)..<entry.end
    }
  }

  /// What is sent for the first time lies together in the ring; the rest only counts.
  func tell(_ observer: any LaneObserver, ring: NotificationRing, byteCount: Int, now: Instant) {
    let share = byteCount / count
    if againCount > 0 {
      observer.wrote(LaneBatch(ring: ring, positions: 0..<0, count: againCount, byteCount: againCount * share, isResend: true, now: now))
    }
    if let positions {
      observer.wrote(
        LaneBatch(ring: ring, positions: positions, count: count - againCount, byteCount: byteCount - againCount * share, isResend: false, now: now))
    }
  }
}
