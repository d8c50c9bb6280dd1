internal import PushTransport
internal import PushWire

/// The HTTP/2 provider API: each notification is a request with its own response.
/// ``RequestMachine`` decides; `HTTP2ClientSession` makes the bytes.
///
/// Responses and credentials are in `RequestConversation+Answers.swift`.
final class RequestConversation: Conversation {
  let settings: HTTP2Settings
  /// The token source of the present connection; nil with a certificate.
  private(set) var tokenSource: ProviderTokenSource?
  /// The token source of the next connection, if the credential has been replaced.
  private var nextSource: ProviderTokenSource??
  let context: LaneContext
  var machine: RequestMachine
  private(set) var session: HTTP2ClientSession?
  var tokens = ConnectionTokens()
  /// By position: the time that a 410 gave for the device, until the notification is settled.
  var goneSince: [UInt64: UInt64] = [:]
  private var batch = RequestBatch()
  private var seenCancellations = 0
  /// The last refusal on this connection that put a notification off, if nothing has been settled
  /// on it since.
  private(set) var lastRefusal: ProviderRefusal?
  /// When an answer last settled something.
  private var progressedAt: Instant?

  /// An intent covers at most as many requests as may be in flight, and this many more. With few
  /// streams, responses come faster than the journal can commit.
  private static let intentMargin = 400
  /// But no more than over the binary protocol.
  private static let intentLimit = 8192

  init(_ policy: LanePolicy, _ settings: HTTP2Settings, _ context: LaneContext, isKept: Bool, seed: UInt64) {
    self.settings = settings
    tokenSource = settings.tokens
    self.context = context
    machine = RequestMachine(policy: policy, requests: settings.policy, isKept: isKept, seed: seed)
  }

  var ring: NotificationRing { context.ring }
  var loop: any Loop { context.loop }
  var shared: AppShared { context.shared }

  var isDisconnected: Bool { machine.isDisconnected }
  var isOpen: Bool { machine.isOpen }
  var endedIdle: Bool { machine.endedIdle }
  var progress: UInt64 { machine.sent }

  func becameIdle() { machine.becameIdle() }

  // MARK: Steps

  func turnBegins() {
    noticeCancellations()
    renewAuthorization()
  }

  private func noticeCancellations() {
    let count = shared.campaigns.cancellationCount
    guard count != seenCancellations else { return }
    seenCancellations = count
    machine.cancelled { context.recorder.ledger(of: $0).isCancelled }
  }

  func step(published: UInt64) -> LaneStep {
    context.measureBacklog(published: published, done: progress)
    switch perform({ machine.next(input(published: published)) }) {
    case .dial: return .dial
    case .again(let entry):
      // The journal wakes the lane, or who extends the lease.
      guard !context.isHeld(at: entry.position), !entry.isInDoubt || context.mayResend() else {
        return afterFlush(.sleep(until: machine.deadline))
      }
      if let step = take(upTo: 1, { _ in takeAgain(entry) }) { return afterFlush(step) }
    case .take(let from, let last, let count):
      let step = min(machine.inFlightCount + min(count, Self.intentLimit) + Self.intentMargin, Self.intentLimit)
      let to = context.permitted(
        through: last, sent: machine.sent, largestStep: step, inFlightCount: machine.inFlightCount)
      // The journal wakes the lane.
      guard from < to else { return afterFlush(.sleep(until: machine.deadline)) }
      if let deadline = batchDeadline(count: min(count, Int(clamping: to - from))) {
        return afterFlush(.sleep(until: deadline))
      }
      let upTo = min(count, Int(clamping: to - from))
      if let step = take(upTo: upTo, { count in perform { take(from: from, to: to, count: count) } }) {
        return afterFlush(step)
      }
    case .cancel(let streamID): session?.cancel(streamID)
    case .ping(let number): session?.ping(number)
    case .leave:
      session?.close()
      flush()
      context.link?.close()
    case .wait(let deadline):
      // These bytes may end streams, which makes room for others.
      if !flush() { return .sleep(until: deadline) }
    }
    guard batch.byteCount >= context.batchByteCount else { return .proceed }
    return afterFlush(.wrote)
  }

  /// Flushes before the step is returned: no prepared bytes stay here.
  private func afterFlush(_ step: LaneStep) -> LaneStep {
    flush()
    return step
  }

  private func input(published: UInt64) -> RequestMachine.Input {
    RequestMachine.Input(
      now: loop.now, published: published, isWritable: context.link?.isWritable ?? false,
      availableStreamCount: session?.availableStreamCount ?? 0, acceptsRequests: session?.acceptsRequests ?? true,
      isCancelled: shared.campaigns.isCancelled)
  }

  // MARK: Sending

  /// Until when the requests wait for more, to be written together; nil: they do not wait.
  private func batchDeadline(count: Int) -> Instant? {
    guard batch.byteCount == 0, let deadline = context.batchDeadline(count: max(1, count)) else { return nil }
    return min(deadline, machine.deadline ?? deadline)
  }

  /// Takes as many notifications as the app's rate allows now, at most `count`.
  ///
  /// - Parameter body: takes up to so many; false: the connection takes no more.
  /// - Returns: nil: there may be more to do now.
  private func take(upTo count: Int, _ body: (Int) -> Bool) -> LaneStep? {
    let permitted: Int
    switch context.permittedByRate(upTo: count) {
    case .all(let count), .part(let count): permitted = count
    case .later(let instant): return .sleep(until: min(instant, machine.deadline ?? instant))
    }
    let batchCount = batch.count
    defer { context.giveBack(permitted - (batch.count - batchCount)) }
    return body(permitted) ? nil : .yield
  }

  private func takeAgain(_ entry: RequestEntry) -> Bool {
    let time = TakingTime(loop)
    guard let source = RequestSource(context.recorder.ledger(of: entry.campaign)) else { return false }
    return submitting { submit in
      batch.take(entry, ring.record(at: entry.position), of: source, at: time, &machine, context, submit)
    }
  }

  /// Takes up to `count` notifications, until the batch is full. False: the connection takes no
  /// more.
  private func take(from: UInt64, to: UInt64, count: Int) -> Bool {
    submitting { submit in
      batch.take(from..<to, count: count, &machine, context, submit)
    }
  }

  private func submitting(_ body: (RequestBatch.Submit) -> Bool) -> Bool {
    // What is not sent any more needs no session.
    guard let session else { return body { _, _, _ in .full } }
    return session.submitting { requests in
      body { source, record, tag in
        var overrides = RequestOverrides()
        if !record.isPlain { record.override(&overrides) }
        return unsafe requests.submit(
          source.template, token: record.token, identifier: source.frames.identifier(of: record),
          overrides: overrides, tag: tag)
      }
    }
  }

  /// Passes the session's bytes to the link, as one write unless they are very many. False: there
  /// were none.
  @discardableResult
  private func flush() -> Bool {
    guard let session, let link = context.link else { return false }
    var byteCount = 0
    while true {
      let bytes = unsafe session.output()
      guard bytes.count > 0 else { break }
      unsafe link.send(bytes)
      byteCount += bytes.count
    }
    if batch.count > 0 {
      if let observer = context.recorder.observer {
        batch.report(to: observer, ring: ring, byteCount: byteCount, now: loop.now)
      }
      batch = RequestBatch()
      context.batchTimer.wrote()
      context.roomMade(done: progress)
    }
    if session.failure != nil { link.close() }
    return byteCount > 0
  }

  // MARK: Effects

  /// Passes events to the machine and carries out their effects at once. The responses of one read
  /// are many events: neighbours among them become one run.
  func perform<Result>(_ event: () -> Result) -> Result {
    let result = event()
    let effects = machine.takeEffects()
    context.update(isSearching: machine.isSearching)
    if case .refusal(let refusal)? = effects?.trouble?.cause { lastRefusal = refusal }
    if let effects { pauseGrowth(effects) }
    if let effects {
      context.doubted(effects.mayHaveArrived)
      context.recorder.settle(effects.settlements, goneSince: goneSince)
      if !goneSince.isEmpty { goneSince.removeAll(keepingCapacity: true) }
    }
    if machine.sent > ring.sent { ring.setSent(machine.sent) }
    if machine.settled > ring.settled { ring.settle(through: machine.settled) }
    if let effects { carryOut(effects) }
    return result
  }

  /// More connections do not help a service that puts everything off. One that accepts others
  /// within the same round trip is well.
  private func pauseGrowth(_ effects: RequestMachine.Effects) {
    if effects.madeProgress {
      progressedAt = loop.now
      return shared.growth.release()
    }
    // Streams are also refused when the service has only just begun to allow more of them.
    guard let trouble = effects.trouble, trouble.cause != .streamRefused else { return }
    if let progressedAt, let oldest = machine.oldestRequestAt, progressedAt >= oldest { return }
    shared.growth.pause(nextTryAt: trouble.nextTryAt, now: loop.now)
  }

  /// Everything that has its outcome is recorded by now.
  private func carryOut(_ effects: RequestMachine.Effects) {
    if effects.madeProgress {
      lastRefusal = nil
      shared.status.progressed()
    } else if let trouble = effects.trouble {
      shared.status.troubled(
        trouble.cause.description, trouble.cause.evidence, nextTryAt: trouble.nextTryAt, now: loop.now)
    }
    if effects.answerCount > 0, let reason = shared.answered(effects.answerCount, bad: effects.badTokenCount) {
      pauseApp(reason)
    }
    if case .rejected(let reason) = effects.pausedBy { refused(reason) }
    context.roomMade(done: progress)
  }

  /// The gateway refuses the credential of this connection, or the topic.
  private func refused(_ reason: Rejection) {
    // The next connection shows another credential.
    guard nextSource == nil else {
      if !shared.isHalted { machine.resume() }
      return
    }
    pauseApp(reason.sentenceForApp)
  }

  /// The credential, the topic or the tokens are wrong, not the connection. The app stops at once
  /// and not through its actor, because lanes may run ahead of the actor.
  func pauseApp(_ reason: String) {
    machine.pause()
    shared.stop(because: reason)
  }

  func finish() {
    if machine.isOpen { machine.goingAway() }
  }

  func halt(_ isHalted: Bool) {
    guard isHalted else { return machine.resume() }
    machine.pause()
    if machine.isOpen { machine.goingAway() }
  }

  // MARK: Connections

  func renewConnection(tokens: ProviderTokenSource?) {
    nextSource = .some(tokens)
    if machine.isOpen { machine.goingAway() }
  }

  func prepareToDial() -> Bool {
    if let replaced = nextSource {
      tokenSource = replaced
      nextSource = nil
      tokens = ConnectionTokens()
    }
    switch authorize() {
    case .ready:
      machine.dialled()
      return true
    case .later(let instant):
      machine.postponed(until: instant)
      shared.status.delayed("waiting for a new provider token", until: instant, now: loop.now)
    case .never(let reason): pauseApp(reason)
    }
    return false
  }

  func opened() {
    let session = HTTP2ClientSession(options: settings.sessionOptions, buffers: loop.buffers)
    session.setAuthorization(tokens.present?.authorization)
    tokens.opened()
    self.session = session
    lastRefusal = nil
    machine.opened(now: loop.now)
    // This connection was dialled with a credential that has been replaced since.
    if nextSource != nil || shared.isHalted { machine.goingAway() }
  }

  func received(_ bytes: UnsafeRawBufferPointer) -> AfterReceiving {
    guard let session else { return .waitForMore }
    machine.heard(now: loop.now)
    unsafe session.receive(bytes)
    perform { takeEvents(of: session) }
    return .takeTurn
  }

  func closed(_ reason: LinkClosure) -> ConversationEnd {
    let now = loop.now
    session?.forEachOpenRequest { tag, _, wasSent in
      if !wasSent { machine.ended(tag, .unprocessed, now: now) }
    }
    let (cause, evidence) = cause(of: reason)
    // After bytes that are not HTTP/2 we close the link ourselves, but it counts as a silent close.
    let closure = session?.failure == nil ? reason.forLane : .silent
    let hasHeard = machine.hasHeard
    session = nil
    batch = RequestBatch()
    perform { machine.closed(closure, now: now) }
    // It does not concern the credential of the next connection.
    let isOutdated = hasHeard || nextSource != nil
    let ending = (isOutdated ? reason.onWorkingConnection : reason).ending(failures: machine.failures)
    return ConversationEnd(ending: ending, cause: cause, evidence: evidence, retryAt: machine.retryAt)
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

  fileprivate var evidence: ProgressWatchdog.Evidence {
    switch self {
    case .refusal: .answer
    case .noAnswer: .silence
    case .streamReset, .streamRefused, .meaninglessAnswer: .failure
    }
  }
}

extension RingRecord {
  /// Distinguishes device tokens that have to wait.
  var tokenHash: Int {
    var hasher = Hasher()
    unsafe hasher.combine(bytes: token)
    return hasher.finalize()
  }

  /// Headers of its own that differ from its campaign's.
  fileprivate func override(_ overrides: inout RequestOverrides) {
    overrides.expiration = expiration
    overrides.priority = priority
    if unsafe collapseIdentifier.count > 0 { unsafe overrides.collapseIdentifier = unsafe collapseIdentifier }
    if unsafe payload.count > 0 { unsafe overrides.payload = unsafe payload }
  }
}

/// When notifications are taken.
private struct TakingTime {
  let now: Instant
  let unixSeconds: UInt32

  init(_ loop: any Loop) { (now, unixSeconds) = (loop.now, loop.unixSeconds) }
}

/// The campaign whose notifications become requests. Its objects are held for all neighbours of a
/// campaign: to count references to them for each one has a measurable cost.
private struct RequestSource {
  let ledger: CampaignLedger
  let frames: CampaignFrames
  let template: RequestTemplate

  init?(_ ledger: CampaignLedger) {
    guard let template = ledger.frames.request else { return nil }
    (self.ledger, frames, self.template) = (ledger, ledger.frames, template)
  }
}

/// The requests that the next write will carry.
///
/// It takes them by itself, with the machine and the session at hand for as long as that takes: to
/// reach these through their owners again for each request was a tenth of what it costs.
private struct RequestBatch {
  /// Makes a request of a notification, with a tag.
  typealias Submit = (RequestSource, RingRecord, UInt64) -> HTTP2ClientSession.Submission

  private(set) var count = 0
  /// An estimate that decides when the batch is full.
  private(set) var byteCount = 0
  private var againCount = 0
  private var positions: Range<UInt64>?

  /// Takes up to `limit` notifications of a ring, until the batch is full. False: the connection
  /// takes no more.
  mutating func take(
    _ positions: Range<UInt64>, count limit: Int, _ machine: inout RequestMachine, _ context: LaneContext,
    _ submit: Submit
  ) -> Bool {
    let time = TakingTime(context.loop)
    let (ring, largest) = (context.ring, context.batchByteCount)
    var position = positions.lowerBound
    var left = limit
    func mayTakeMore() -> Bool { position < positions.upperBound && left > 0 && byteCount < largest }
    while mayTakeMore() {
      let first = ring.record(at: position)
      guard first.isNotification else {
        position += first.blockCount
        machine.passedPadding(to: position)
        continue
      }
      guard let source = RequestSource(context.recorder.ledger(of: first.campaign)) else { return false }
      while mayTakeMore() {
        let record = ring.record(at: position)
        guard record.isNotification, record.campaign == source.frames.campaign else { break }
        let end = position + record.blockCount
        let entry = RequestEntry(
          position: position, end: end, campaign: record.campaign, isInDoubt: record.mayHaveArrived)
        guard take(entry, record, of: source, at: time, &machine, context, submit) else { return false }
        left -= 1
        position = end
      }
    }
    return true
  }

  /// Makes a request of a notification, or skips it if it must not be sent any more. False: the
  /// connection takes no more.
  mutating func take(
    _ entry: RequestEntry, _ record: RingRecord, of source: RequestSource, at time: TakingTime,
    _ machine: inout RequestMachine, _ context: LaneContext, _ submit: Submit
  ) -> Bool {
    if source.ledger.isCancelled {
      machine.passed(entry, as: entry.isInDoubt ? .unknown : .cancelled)
      return true
    }
    let expiration = record.expiration ?? source.frames.expiration ?? 0
    if expiration != 0 && expiration <= time.unixSeconds || record.ordinal < source.ledger.ages.end(now: time.now) {
      machine.passed(entry, as: entry.isInDoubt ? .unknown : .expired)
      return true
    }
    let turn = machine.turn()
    if turn.pacesTokens, let until = machine.pacedUntil(record.tokenHash, now: time.now) {
      machine.passed(entry, until: until)
      return true
    }
    let isAgain = entry.position < turn.sent
    let submission = submit(source, record, turn.tag)
    guard case .submitted(let streamID) = submission else {
      if submission == .finished { machine.goingAway() }
      return false
    }
    machine.submitted(entry, streamID: streamID, now: time.now)
    add(entry, byteCount: source.frames.frameByteCount, isAgain: isAgain)
    if isAgain { context.recorder.resent(1, of: source.ledger) }
    return true
  }

  private mutating func add(_ entry: RequestEntry, byteCount added: Int, isAgain: Bool) {
    count += 1
    byteCount += added
    if isAgain {
      againCount += 1
    } else {
      positions = (positions?.lowerBound ?? entry.position)..<entry.end
    }
  }

  /// New notifications lie together in the ring. Resent ones are only counted.
  func report(to observer: any LaneObserver, ring: NotificationRing, byteCount: Int, now: Instant) {
    let share = byteCount / count
    if againCount > 0 {
      observer.wrote(
        LaneBatch(
          ring: ring, positions: 0..<0, count: againCount, byteCount: againCount * share, isResend: true, now: now))
    }
    if let positions {
      observer.wrote(
        LaneBatch(
          ring: ring, positions: positions, count: count - againCount, byteCount: byteCount - againCount * share,
          isResend: false, now: now))
    }
  }
}
