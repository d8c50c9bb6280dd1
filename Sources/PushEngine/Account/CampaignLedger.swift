internal import PushTransport
internal import PushWire
internal import Synchronization

/// The books of one campaign: written by its reader and by every lane, a batch at a time, and read by whoever shows progress.
package final class CampaignLedger: Sendable {
  private struct State {
    var account = Account()
    var isIntakeClosed = false
    var unread: UnreadAudience?
    var waiters: [CheckedContinuation<Void, Never>] = []

    var isFinished: Bool { isIntakeClosed && account.inFlight == 0 }
  }

  private let state = Mutex(State())
  private let cancelledFlag = Atomic<Bool>(false)
  private let abandonedFlag = Atomic<Bool>(false)
  let frames: CampaignFrames
  /// The campaign's number in the journal, if there is one.
  let journalNumber: UInt64?
  private let listener: (any OutcomeListener)?
  /// The same, if it hears of accepted notifications too.
  private let acceptedListener: (any OutcomeListener)?
  private let pausedFlag = Atomic<Bool>(false)
  /// Wakes the reader.
  let readerSignal = ReaderSignal()

  /// - Parameter account: what earlier processes have made of the campaign.
  init(frames: CampaignFrames, journalNumber: UInt64?, account: Account, listener: (any OutcomeListener)?) {
    self.frames = frames
    self.journalNumber = journalNumber
    self.listener = listener
    acceptedListener = listener?.hearsOfAccepted == true ? listener : nil
    state.withLock { $0.account = account }
  }

  package var account: Account { state.withLock { $0.account } }
  /// What is not sent yet will not be; what is under way still gets its outcome.
  package var isCancelled: Bool { cancelledFlag.load(ordering: .acquiring) }

  /// It was cancelled for good: the journal keeps nothing of it to be resumed.
  var isAbandoned: Bool { abandonedFlag.load(ordering: .acquiring) }

  func abandon() {
    abandonedFlag.store(true, ordering: .releasing)
    cancel()
  }

  func cancel() {
    cancelledFlag.store(true, ordering: .releasing)
    readerSignal.set()
  }

  /// The reader takes nothing in at present.
  package var isPaused: Bool { pausedFlag.load(ordering: .acquiring) }

  func setPaused(_ isPaused: Bool) {
    pausedFlag.store(isPaused, ordering: .releasing)
    readerSignal.set()
  }

  /// Before the notifications can be seen by a lane, so that the account never counts more outcomes than submissions.
  func submitted(_ count: Int) {
    state.withLock { $0.account.submitted += count }
  }

  /// Takes back a submission that found no room; nobody has seen it.
  func withdrew(_ count: Int) {
    guard count > 0 else { return }
    change { $0.account.submitted -= count }
  }

  /// A line that never became a notification on the wire.
  func rejectedAtIntake(line: UInt64, token: String, reason: Rejection) {
    listener?.notAccepted(line: line, token: token, outcome: .rejected(reason))
    change {
      $0.account.submitted += 1
      $0.account.count(.rejected(reason), 1)
    }
  }

  /// Tells the listener of a run that leaves the window, if it was not accepted. Its records are still readable.
  func report(_ settlement: Settlement, ring: NotificationRing) {
    if case .accepted(let confirmation) = settlement.outcome {
      return reportAccepted(settlement, confirmation, ring: ring)
    }
    guard let listener else { return }
    ring.forEachNotification(from: settlement.from, to: settlement.to) { _, record in
      unsafe report(line: record.ordinal, token: record.token, settlement.outcome)
    }
    if journalNumber != nil { listener.flush() }
  }

  private func reportAccepted(_ settlement: Settlement, _ confirmation: Confirmation, ring: NotificationRing) {
    guard let acceptedListener else { return }
    var lines: [UInt64] = []
    lines.reserveCapacity(settlement.count)
    ring.forEachNotification(from: settlement.from, to: settlement.to) { _, record in lines.append(record.ordinal) }
    acceptedListener.accepted(lines: lines, confirmation)
  }

  /// Tells the listener of one notification that was not accepted, while its record is readable: for lanes that hear of each by itself. Before it is journaled as
  /// settled, call ``flushReports()``, once for as many as come together.
  ///
  /// - Parameter goneSince: see ``OutcomeListener``.
  func report(_ record: RingRecord, _ outcome: Outcome, goneSince: UInt64?) {
    guard let listener, !outcome.isAccepted else { return }
    listener.notAccepted(
      line: record.ordinal, token: unsafe DeviceToken(bytes: record.token)?.description ?? "", outcome: outcome, goneSince: goneSince)
  }

  /// Tells the listener of what an earlier process left behind, but for the first few, and what has an outcome without being sent again.
  func report(_ recovered: RecoveredRun, _ outcome: Outcome, skipping skipped: Int = 0) {
    if let listener { recovered.report(outcome, to: listener, skipping: skipped) }
  }

  private func report(line: UInt64, token: UnsafeRawBufferPointer, _ outcome: Outcome) {
    listener?.notAccepted(line: line, token: unsafe DeviceToken(bytes: token)?.description ?? "", outcome: outcome)
  }

  func flushReports() { listener?.flush() }

  /// So many notifications have got this outcome.
  func settled(_ count: Int, _ outcome: Outcome) {
    change { $0.account.count(outcome, count) }
  }

  func resent(_ count: Int) {
    state.withLock { $0.account.resent += count }
  }

  /// Notifications that may have arrived are to be sent again.
  ///
  /// - Parameters:
  ///   - count: of those that are in doubt for the first time.
  ///   - copies: of all of them.
  func mayHaveArrivedTwice(_ count: Int, copies: Int) {
    guard count > 0 || copies > 0 else { return }
    state.withLock {
      $0.account.possibleDuplicates += count
      $0.account.possibleCopies += copies
    }
  }

  /// What of the audience was never read; nil while reading goes on, and when all was read.
  package var unread: UnreadAudience? { state.withLock { $0.unread } }

  func stoppedReading(at unread: UnreadAudience?) {
    state.withLock { $0.unread = unread }
  }

  /// Nothing more will be submitted.
  func closeIntake() {
    change { $0.isIntakeClosed = true }
  }

  /// Returns once the intake is closed and every notification has its outcome.
  package func finished() async {
    await withCheckedContinuation { continuation in
      let isFinished = state.withLock { state in
        if !state.isFinished { state.waiters.append(continuation) }
        return state.isFinished
      }
      if isFinished { continuation.resume() }
    }
  }

  private func change(_ body: (inout State) -> Void) {
    let waiters: [CheckedContinuation<Void, Never>] = state.withLock { state in
      body(&state)
      precondition(state.account.inFlight >= 0, "more outcomes than submissions")
      guard state.isFinished else { return [] }
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }
}

extension Outcome {
  fileprivate var isAccepted: Bool { if case .accepted = self { true } else { false } }
}
