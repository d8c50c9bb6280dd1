internal import PushEngine
internal import PushWire
internal import Synchronization

/// The notifications of one queue that an app has accepted durably. A caller is answered when the
/// journal has its notifications; their outcomes go to the recorder.
final class IntakeRun: QueueOwner {
  typealias Queue = NotificationQueue<IntakeRun>
  typealias Answer = @Sendable (CarillonError?) -> Void

  /// What became of notifications is forgotten run by run, after the run's end, so none goes on for
  /// longer than an hour. A run's lines must fit an identifier.
  /// Channels with a run of their own at one time: each costs memory, and rows in a store.
  static let channelLimit = 500
  static let limits = Queue.Limits(idle: .seconds(60), age: .seconds(3600), lines: UInt64(UInt32.max))

  let id: IntakeRunID
  private let app: String
  private let journal: EngineJournal
  private let recorder: any IntakeRecorder
  /// By the last line of each; in that order.
  private let answers = Mutex<[(line: UInt64, answer: Answer)]>([])
  /// The process gives up what it has not sent: the journal keeps that for the next one.
  private let isLeft = Atomic<Bool>(false)

  init(_ id: IntakeRunID, app: String, journal: EngineJournal, recorder: any IntakeRecorder) {
    (self.id, self.app, self.journal, self.recorder) = (id, app, journal, recorder)
  }

  /// Calls `answer` once: with nil when the journal has everything up to the line, by its sync
  /// policy; otherwise with the error. The notifications may be sent nevertheless.
  func expect(through line: UInt64, _ answer: @escaping Answer) {
    if journal.plantedMistake == .acknowledgedAtOnce { return answer(nil) }
    answers.withLock { $0.append((line, answer)) }
  }

  /// Nothing more is sent. What has no outcome yet gets it from a later process.
  func leave() { isLeft.store(true, ordering: .relaxed) }

  /// Its campaign has ended: callers that still wait get this answer.
  ///
  /// - Parameter isSettled: everything that it accepted has its outcome.
  func end(_ error: CarillonError, isSettled: Bool) {
    for entry in answers.withLock({ exchange(&$0, with: []) }) { entry.answer(error) }
    if isSettled { recorder.ended(id) }
  }

  // MARK: QueueOwner

  func recorded(through line: UInt64) {
    journal.whenAllIsDurable { [self] problem in acknowledge(through: line, problem) }
  }

  private func acknowledge(through line: UInt64, _ problem: JournalProblem?) {
    let ready = answers.withLock { answers in
      let count = answers.firstIndex { $0.line > line } ?? answers.count
      defer { answers.removeFirst(count) }
      return answers[..<count].map(\.answer)
    }
    if problem == nil { recorder.acknowledged(id, through: line) }
    let error = problem.map { CarillonError(.journal, "\($0)") }
    for answer in ready { answer(error) }
  }

  func accepted(_ entries: OutcomeEntries, _ confirmation: PushWire.Confirmation) {
    recorder.accepted(id, entries, confirmation)
  }

  func doubted(lines: [UInt64]) { recorder.doubted(id, lines: lines) }

  func notAccepted(
    line: UInt64, token: String, outcome: PushWire.Outcome, goneSince: UInt64?, isDoubted: Bool
  ) -> Bool {
    // With a journal, cancelling keeps the notification for resuming. It has no outcome.
    if outcome == .cancelled || outcome == .unknown && isLeft.load(ordering: .relaxed) { return false }
    recorder.notAccepted(
      id, app: app, line: line, token: token, outcome: outcome, goneSince: goneSince, isDoubted: isDoubted)
    return true
  }
}
