internal import PushTransport
internal import PushWire

/// What a lane and its conversation share: ring, link, recorder, intents. Used only on the lane's
/// loop.
final class LaneContext {
  let ring: NotificationRing
  let loop: any Loop
  let shared: AppShared
  /// The limit of the lane's backlog.
  let backlog: BacklogGauge
  let report: @Sendable (LaneEvent) -> Void
  let batchByteCount: Int
  var recorder: SettlementRecorder
  var batchTimer: BatchTimer
  var link: (any Link)?
  var isShutDown = false
  /// Allows what a durable intent covers; nil without a journal.
  private var gate: IntentGate?
  /// See ``IntentGate/Backlog``.
  private let waitsForAnswers: Bool
  private var isSearching = false
  /// Called on any thread when an intent has become durable.
  var intentAnswered: @Sendable () -> Void = {}

  init(
    configuration: AppRules, ring: NotificationRing, loop: any Loop, shared: AppShared, backlog: BacklogGauge,
    gate: IntentGate?, report: @escaping @Sendable (LaneEvent) -> Void
  ) {
    (self.ring, self.loop, self.shared) = (ring, loop, shared)
    (self.backlog, self.gate, self.report) = (backlog, gate, report)
    batchByteCount = configuration.batchByteCount
    waitsForAnswers = configuration.transport.waitsForAnswers
    batchTimer = BatchTimer(byteCountBound: configuration.batchByteCount, delay: configuration.batchDelay)
    recorder = SettlementRecorder(
      configuration: configuration, ring: ring, loop: loop, shared: shared, journalNumber: gate?.lane,
      isInOrder: !waitsForAnswers)
  }

  // MARK: Intents

  /// How far lease and journal allow the lane to send. Requests the next intent.
  ///
  /// - Parameters:
  ///   - sent: everything before it has been sent.
  ///   - largestStep: an intent covers at most this many notifications behind `sent`.
  ///   - inFlightCount: the notifications on the connection that get an answer each.
  func permitted(through end: UInt64, sent: UInt64, largestStep: Int, inFlightCount: Int = 0) -> UInt64 {
    // Cancelled notifications are not sent, so they need neither a lease nor a durable intent.
    guard !shared.campaigns.isCancelled else { return end }
    let end = shared.campaigns.isHolding(at: loop.now) ? firstHeld(from: sent, to: end) : end
    guard gate != nil else { return end }
    requestIntent(sent: sent, largestStep: largestStep, inFlightCount: inFlightCount)
    return min(end, gate?.through ?? end)
  }

  /// Where the first notification is that may not be sent before a lease is extended, which wakes
  /// the lane.
  private func firstHeld(from start: UInt64, to end: UInt64) -> UInt64 {
    var position = start
    while position < end, !isHeld(at: position) { position += ring.record(at: position).blockCount }
    return min(position, end)
  }

  /// A notification that may not be sent before a lease is extended, which wakes the lane. A
  /// cancelled one is not sent at all.
  func isHeld(at position: UInt64) -> Bool {
    let record = ring.record(at: position)
    guard record.isNotification else { return false }
    let ledger = recorder.ledger(of: record.campaign)
    return !ledger.isCancelled && ledger.lease?.isOver(at: loop.now) ?? false
  }

  private func requestIntent(sent: UInt64, largestStep: Int, inFlightCount: Int = 0) {
    let backlog = IntentGate.Backlog(
      sent: sent, published: ring.published, largestStep: largestStep, inFlightCount: inFlightCount, now: loop.now,
      waitsForAnswers: waitsForAnswers)
    gate?.ask(backlog, walk: ring, answered: intentAnswered)
  }

  /// How many notifications the app's rate lets the lane send now, at most `count`. Those that are
  /// not sent are to be given back.
  func permittedByRate(upTo count: Int) -> RateLimiter.Permission {
    // What is cancelled is not sent.
    guard shared.rate.isLimited, !shared.campaigns.isCancelled else { return .all(count) }
    return shared.rate.permission(upTo: count, now: loop.now)
  }

  func giveBack(_ count: Int) { if shared.rate.isLimited { shared.rate.giveBack(count, now: loop.now) } }

  /// Everything behind `position` needs a new intent. Requests it now, so that it is durable when
  /// the next connection needs it.
  func rewindIntent(to position: UInt64, sent: UInt64, largestStep: Int) {
    gate?.rewind(to: position)
    if !shared.campaigns.isCancelled { requestIntent(sent: sent, largestStep: largestStep) }
  }

  func intentGranted() { gate?.granted() }

  /// These notifications may have arrived and will be sent again.
  func doubted(_ ranges: [Range<UInt64>]) {
    guard !ranges.isEmpty else { return }
    for range in ranges { recorder.markMayHaveArrived(range) }
    gate?.doubted()
  }

  /// False until the journal's record of the doubt is durable.
  func mayResend() -> Bool { shared.campaigns.isCancelled || gate?.mayResend(answered: intentAnswered) ?? true }

  // MARK: Batches

  /// Bytes that a notification takes on the wire. One with its own payload takes about as many as
  /// in the ring. For the others the frame's size is known.
  private var frameByteCount: Int {
    max(NotificationRing.blockByteCount, recorder.ledger?.frames.frameByteCount ?? 0)
  }

  /// Until when `count` notifications wait for more, to be written together; nil: they are written
  /// now.
  func batchDeadline(count: Int) -> Instant? {
    guard let link else { return nil }
    switch batchTimer.decide(waiting: count * frameByteCount, socketIsIdle: link.isIdle, now: loop.now) {
    case .write: return nil
    case .wait(let deadline): return deadline
    }
  }

  // MARK: Backlog and growth

  /// Measures how fast the backlog is sent.
  ///
  /// - Parameter done: everything before it is final.
  func measureBacklog(published: UInt64, done: UInt64) {
    backlog.update(
      published: published, done: done, frameByteCount: recorder.ledger?.frames.frameByteCount, now: loop.now)
  }

  /// Measures the backlog, and resumes readers that wait for room.
  ///
  /// - Parameter done: everything before it is final.
  func roomMade(done: UInt64) {
    measureBacklog(published: ring.published, done: done)
    shared.scheduler.roomMade(ring: ring, backlog: backlog)
  }

  /// The pool does not grow during the lane's poison search.
  func update(isSearching: Bool) {
    guard isSearching != self.isSearching else { return }
    self.isSearching = isSearching
    shared.growth.searching(isSearching ? 1 : -1)
  }
}

extension AppTransport {
  fileprivate var waitsForAnswers: Bool { if case .http2 = self { true } else { false } }
}
