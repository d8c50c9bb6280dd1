internal import PushEngine
internal import PushTransport
internal import PushWire
internal import Synchronization

/// Durably accepted notifications with the same headers: the audience of a campaign of the engine,
/// and the listener for its outcomes.
///
/// A caller is answered when the journal has its notifications.
final class IntakeRun: AudienceSource, OutcomeListener {
  typealias Answer = @Sendable (CarillonError?) -> Void

  private struct State {
    /// The first has the line `readLine + 1`.
    var queue = IntakeQueue()
    var lastLine: UInt64 = 0
    /// The last that was read into a chunk.
    var readLine: UInt64 = 0
    /// The last whose record the journal has been asked to make durable.
    var recordedLine: UInt64 = 0
    /// By the last line of each; in that order.
    var answers: [(line: UInt64, answer: Answer)] = []
    var settledCount: UInt64 = 0
    var age = QueueAge()
    var signal: ReaderSignal?
    /// Takes nothing more, and ends when it is empty.
    var isFinished = false
    var activeAt = Instant.start
    var isTimerSet = false

    /// All that was taken in is in the journal, and in lanes or in a reservoir.
    var isRead: Bool { recordedLine == lastLine }
  }

  let id: IntakeRunID
  private let app: String
  private let journal: EngineJournal
  private let recorder: any IntakeRecorder
  private let foundGone: @Sendable (PushApp.GoneDevice) -> Void
  private let loop: any Loop
  private let gauge: IntakeGauge
  /// Payload and expiration are the campaign's.
  private let isShared: Bool
  /// When a run that resumes after a restart began, by this process's clock.
  private let resumedSince: Instant?
  private let beganAt: Instant
  private let state = Mutex(State())
  /// The process gives up what it has not sent: the journal keeps that for the next one.
  private let isLeft = Atomic<Bool>(false)

  /// A run that was unused for this long ends, so an idle app costs nothing.
  private static let idleLimit = Duration.seconds(60)
  /// A run this old accepts nothing more, as soon as another one can continue without disturbing
  /// the order: what became of notifications is forgotten run by run, after the run's end.
  static let ageLimit = Duration.seconds(3600)
  /// A run's lines must fit an identifier.
  private static let lineLimit = UInt64(UInt32.max)

  /// - Parameter resumedSince: it accepts nothing new, and resumes what an earlier process has left
  ///   since then.
  init(
    _ id: IntakeRunID, entry: AppEntry, journal: EngineJournal, recorder: any IntakeRecorder, loop: any Loop,
    gauge: IntakeGauge, isShared: Bool = false, resumedSince: Instant? = nil
  ) {
    self.id = id
    self.gauge = gauge
    self.isShared = isShared
    self.resumedSince = resumedSince
    beganAt = loop.now
    app = entry.id
    self.journal = journal
    self.recorder = recorder
    self.loop = loop
    foundGone = { [entry] in entry.goneDevices.send($0) }
    state.withLock { $0.isFinished = resumedSince != nil }
  }

  // MARK: Callers

  /// Takes notifications in, all or none. Returns the line of the first, or nil if the run takes
  /// nothing more.
  ///
  /// - Parameters:
  ///   - parts: of the batch.
  ///   - assigned: called with that line, before any outcome can come.
  ///   - answer: called once: with nil when the journal has them, by its sync policy; otherwise
  ///     with the error. They may be sent nevertheless.
  func enqueue(
    _ batch: IntakeBatch, _ parts: [IntakeBatch.Part], assigned: (UInt32) -> Void, _ answer: @escaping Answer
  ) -> UInt32? {
    let now = loop.now
    let (line, signal): (UInt32?, ReaderSignal?) = state.withLock { state in
      let count = parts.reduce(0) { $0 + $1.range.count }
      let last = state.lastLine + UInt64(count)
      guard !state.isFinished, last < Self.lineLimit, !(state.isRead && isOld(now)) else {
        // Within the lock: what others hand over from now on goes to the run behind this one.
        state.isFinished = true
        return (nil, state.signal)
      }
      let first = UInt32(state.lastLine + 1)
      gauge.waiting(count: count, byteCount: state.queue.append(batch, parts))
      state.lastLine = last
      state.age.took(through: last, now: now)
      state.answers.append((last, answer))
      assigned(first)
      return (first, state.signal)
    }
    signal?.set()
    return line
  }

  /// Whether the run is old, and none of its kind has anything in a reservoir. If all was read as
  /// well, it lies in the rings of lanes: whatever comes then is behind it there, in any run.
  private func isOld(_ now: Instant) -> Bool { now.since(beganAt) >= Self.ageLimit && gauge.stored.count == 0 }

  /// When the oldest notification without an outcome was taken in; nil: there is none.
  var oldest: Instant? { resumedSince ?? state.withLock { $0.age.oldest } }

  /// Nothing more is sent. What has no outcome yet gets it from a later process.
  func leave() { isLeft.store(true, ordering: .relaxed) }

  /// Takes nothing more; what was handed over is still sent.
  func finish() {
    let signal = state.withLock { state in
      state.isFinished = true
      return state.signal
    }
    signal?.set()
  }

  /// The run has ended: callers that still wait get this answer.
  ///
  /// - Parameter isSettled: everything that it accepted has its outcome.
  func ended(_ error: CarillonError, isSettled: Bool) {
    let answers = state.withLock { state in
      state.isFinished = true
      gauge.waiting(count: -state.queue.count, byteCount: -state.queue.byteCount)
      state.queue.removeAll()
      defer { state.answers = [] }
      return state.answers
    }
    for entry in answers { entry.answer(error) }
    if isSettled { recorder.ended(id) }
  }

  // MARK: AudienceSource

  var reservoir: ReservoirGauge? { gauge.stored }

  func attach(_ signal: ReaderSignal) { state.withLock { $0.signal = signal } }

  func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    // The reader asks again when all of the chunk before is in a ring or a reservoir, and so in the
    // journal.
    let recorded: UInt64? = state.withLock { state in
      guard state.recordedLine < state.readLine else { return nil }
      state.recordedLine = state.readLine
      return state.readLine
    }
    if let recorded { journal.whenAllIsDurable { [self] in acknowledge(through: recorded, $0) } }
    chunk.removeAll()
    return state.withLock { state in
      chunk.mark = AudienceMark(offset: state.readLine, line: state.readLine + 1)
      let (count, byteCount) = state.queue.move(into: chunk, from: state.readLine + 1, isShared: isShared)
      guard count > 0 else { return state.isFinished ? .end : .waiting }
      state.readLine += UInt64(count)
      gauge.waiting(count: -count, byteCount: -byteCount)
      return .entries
    }
  }

  private func acknowledge(through line: UInt64, _ problem: JournalProblem?) {
    let answers = state.withLock { state in
      let count = state.answers.firstIndex { $0.line > line } ?? state.answers.count
      defer { state.answers.removeFirst(count) }
      return state.answers[..<count].map(\.answer)
    }
    if problem == nil { recorder.acknowledged(id, through: line) }
    let error = problem.map { CarillonError(.journal, "\($0)") }
    for answer in answers { answer(error) }
  }

  // MARK: OutcomeListener

  var hearsOfAccepted: Bool { true }

  func accepted(lines: [UInt64], _ confirmation: PushWire.Confirmation) {
    recorder.accepted(id, lines: lines, confirmation)
    settled(lines.count)
  }

  func doubted(lines: [UInt64]) { recorder.doubted(id, lines: lines) }

  func notAccepted(line: UInt64, token: String, outcome: PushWire.Outcome, goneSince: UInt64?) {
    // With a journal, cancelling keeps the notification for resuming. It has no outcome.
    if outcome == .cancelled || outcome == .unknown && isLeft.load(ordering: .relaxed) { return }
    recorder.notAccepted(id, app: app, line: line, token: token, outcome: outcome, goneSince: goneSince)
    if outcome.saysGone, let gone = try? DeviceToken(hex: token) {
      foundGone(
        PushApp.GoneDevice(token: gone, since: PushOutcome(outcome, goneSince: goneSince).rejection?.goneSince))
    }
    settled(1)
  }

  private func settled(_ count: Int) {
    let now = loop.now
    let isTimerNeeded = state.withLock { state in
      state.settledCount += UInt64(count)
      state.age.settled(state.settledCount)
      state.activeAt = now
      guard state.settledCount == state.lastLine, !state.isTimerSet, !state.isFinished else { return false }
      state.isTimerSet = true
      return true
    }
    if isTimerNeeded { setTimer(at: now + Self.idleLimit) }
  }

  // MARK: Idleness

  private func setTimer(at deadline: Instant) {
    _ = loop.schedule(at: deadline) { [weak self] in self?.timerFired() }
  }

  private func timerFired() {
    enum Next {
      case nothing
      case again(Instant)
      case end(ReaderSignal?)
    }
    let next: Next = state.withLock { state in
      state.isTimerSet = false
      guard state.settledCount == state.lastLine, !state.isFinished else { return .nothing }
      let end = state.activeAt + Self.idleLimit
      guard end <= loop.now else {
        state.isTimerSet = true
        return .again(end)
      }
      state.isFinished = true
      return .end(state.signal)
    }
    switch next {
    case .nothing: break
    case .again(let deadline): setTimer(at: deadline)
    case .end(let signal): signal?.set()
    }
  }
}
