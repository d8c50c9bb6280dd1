internal import PushEngine
internal import PushTransport
internal import PushWire
internal import Synchronization

/// A queue of single notifications with the same headers, and the callers that wait for their
/// outcomes. The engine sends it as a campaign: this is its audience and its listener.
final class SingleSendQueue: AudienceSource, OutcomeListener {
  typealias Answer = @Sendable (Result<PushOutcome, CarillonError>) -> Void

  private struct Entry {
    var line: UInt64
    var token: TokenBytes
    var notification: PreparedNotification
  }

  private struct State {
    /// Handed over, and not yet read. Those before `nextEntry` have been.
    var entries: [Entry] = []
    var nextEntry = 0
    var lastLine: UInt64 = 0
    var answers: [UInt64: Answer] = [:]
    var signal: ReaderSignal?
    /// Takes nothing more, and ends when it is empty.
    var isFinished = false
    var activeAt = Instant.start
    var isTimerSet = false
  }

  private let state = Mutex(State())
  private let foundGone = Mutex<(@Sendable (PushApp.GoneDevice) -> Void)?>(nil)
  private let idleLoop = Mutex<(any Loop)?>(nil)

  /// A queue that is not used for this long ends.
  private static let idleLimit = Duration.seconds(1)

  init() {}

  /// To be called before anything is read.
  ///
  /// - Parameters:
  ///   - loop: for its timer.
  ///   - foundGone: called with every device that no longer has the app.
  func prepare(loop: any Loop, foundGone handler: @escaping @Sendable (PushApp.GoneDevice) -> Void) {
    idleLoop.withLock { $0 = loop }
    foundGone.withLock { $0 = handler }
  }

  // MARK: Callers

  /// Takes a notification in. False if the queue takes nothing more.
  func enqueue(_ notification: PreparedNotification, to token: DeviceToken, _ answer: @escaping Answer) -> Bool {
    let (isTaken, signal) = state.withLock { state -> (Bool, ReaderSignal?) in
      guard !state.isFinished else { return (false, nil) }
      state.lastLine += 1
      state.answers[state.lastLine] = answer
      state.entries.append(Entry(line: state.lastLine, token: token.wire, notification: notification))
      return (true, state.signal)
    }
    signal?.set()
    return isTaken
  }

  /// Takes nothing more; what was handed over is still sent.
  func finish() {
    let signal = state.withLock { state in
      state.isFinished = true
      return state.signal
    }
    signal?.set()
  }

  /// The campaign has ended. Callers that still wait get this answer.
  func ended(_ result: Result<PushOutcome, CarillonError>) {
    let answers = state.withLock { state in
      state.isFinished = true
      state.entries = []
      defer { state.answers = [:] }
      return state.answers
    }
    for answer in answers.values { answer(result) }
  }

  // MARK: AudienceSource

  func attach(_ signal: ReaderSignal) { state.withLock { $0.signal = signal } }

  func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    chunk.removeAll()
    return state.withLock { state in
      while state.nextEntry < state.entries.count {
        let entry = state.entries[state.nextEntry]
        guard chunk.hasRoom(payloadByteCount: entry.notification.payload.count) else { break }
        if chunk.count == 0 { chunk.mark = AudienceMark(offset: entry.line - 1, line: entry.line) }
        chunk.append(
          line: entry.line, token: entry.token, payload: entry.notification.payload,
          identifier: entry.notification.identifier, collapseIdentifier: entry.notification.collapseID,
          expiration: entry.notification.expiration)
        state.nextEntry += 1
      }
      if state.nextEntry == state.entries.count {
        state.entries.removeAll(keepingCapacity: state.entries.count <= 1024)
        state.nextEntry = 0
      }
      if chunk.count > 0 { return .entries }
      return state.isFinished ? .end : .waiting
    }
  }

  // MARK: OutcomeListener

  var hearsOfAccepted: Bool { true }

  func accepted(lines: [UInt64], _ confirmation: PushWire.Confirmation) {
    let outcome = PushOutcome(.accepted(confirmation))
    let answers = state.withLock { state in lines.compactMap { state.answers.removeValue(forKey: $0) } }
    for answer in answers { answer(.success(outcome)) }
    noteIdleness()
  }

  func notAccepted(line: UInt64, token: String, outcome: PushWire.Outcome, goneSince: UInt64?) {
    let answer = state.withLock { $0.answers.removeValue(forKey: line) }
    let told = PushOutcome(outcome, goneSince: goneSince)
    if outcome.saysGone, let token = try? DeviceToken(hex: token) {
      foundGone.withLock { $0 }?(PushApp.GoneDevice(token: token, since: told.rejection?.goneSince))
    }
    answer?(.success(told))
    noteIdleness()
  }

  // MARK: Idleness

  /// Sets a timer when no caller waits.
  private func noteIdleness() {
    guard let loop = idleLoop.withLock({ $0 }) else { return }
    let now = loop.now
    let isTimerNeeded = state.withLock { state in
      state.activeAt = now
      guard state.answers.isEmpty, !state.isTimerSet, !state.isFinished else { return false }
      state.isTimerSet = true
      return true
    }
    if isTimerNeeded { setTimer(loop, at: now + Self.idleLimit) }
  }

  private func setTimer(_ loop: any Loop, at deadline: Instant) {
    _ = loop.schedule(at: deadline) { [weak self] in self?.timerFired(loop) }
  }

  private func timerFired(_ loop: any Loop) {
    enum Next {
      case nothing
      case again(Instant)
      case end(ReaderSignal?)
    }
    let next: Next = state.withLock { state in
      state.isTimerSet = false
      guard state.answers.isEmpty, !state.isFinished else { return .nothing }
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
    case .again(let deadline): setTimer(loop, at: deadline)
    case .end(let signal): signal?.set()
    }
  }
}
