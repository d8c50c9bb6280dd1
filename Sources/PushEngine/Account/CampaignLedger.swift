internal import PushTransport
internal import PushWire
internal import Synchronization

/// The accounting of one campaign. Its reader and its lanes write, a batch at a time; any thread
/// may read.
package final class CampaignLedger: Sendable {
  private struct State {
    var account = Account()
    var isIntakeClosed = false
    var unread: UnreadAudience?
  }

  private let state = Mutex(State())
  private let ended = Gate()
  private enum Stop: UInt8, AtomicRepresentable { case none, resumable, final, leaving }
  /// The first stop counts, so that a notification is never listed by one and counted by another.
  private let stop = Atomic<Stop>(.none)
  let frames: CampaignFrames
  /// Which of its notifications are not to be sent any more, because they have waited for too long.
  let ages: CampaignAges
  /// The campaign's number in the journal; nil without a journal.
  let journalNumber: UInt64?
  /// The order of its reader among those that want room in the lanes.
  let rank: ClaimOrder.Rank
  /// Nil: no other process may send it.
  let lease: SendLease?
  private let listener: (any OutcomeListener)?
  /// The listener, if it wants accepted notifications too.
  private let acceptedListener: (any OutcomeListener)?
  private let pausedFlag = Atomic<Bool>(false)
  /// Wakes the reader.
  let readerSignal = ReaderSignal()

  /// - Parameter account: The campaign's account in earlier processes.
  init(
    frames: CampaignFrames, journalNumber: UInt64?, rank: ClaimOrder.Rank = .high, maxAge: Duration = AppRules.maxAge,
    lease: SendLease? = nil, account: Account, listener: (any OutcomeListener)?
  ) {
    self.frames = frames
    ages = CampaignAges(limit: maxAge)
    (self.rank, self.lease, self.journalNumber, self.listener) = (rank, lease, journalNumber, listener)
    acceptedListener = listener?.wantsAccepted == true ? listener : nil
    state.withLock { $0.account = account }
  }

  package var account: Account { state.withLock { $0.account } }
  /// Notifications not sent yet are cancelled. Those in flight still get their outcome.
  package var isCancelled: Bool { stop.load(ordering: .acquiring) != .none }

  /// It was cancelled for good: the journal keeps nothing of it to be resumed.
  var isAbandoned: Bool { [.final, .leaving].contains(stop.load(ordering: .acquiring)) }
  /// What of its audience is not settled yet is left to the process that continues.
  var leavesRest: Bool { stop.load(ordering: .acquiring) == .leaving }

  func abandon() { stop(.final) }
  func cancel() { stop(.resumable) }

  func leaveRest() {
    _ = stop.compareExchange(expected: .final, desired: .leaving, ordering: .acquiringAndReleasing)
    readerSignal.set()
  }

  private func stop(_ stop: Stop) {
    _ = self.stop.compareExchange(expected: .none, desired: stop, ordering: .acquiringAndReleasing)
    readerSignal.set()
  }

  /// What the campaign keeps for the process that resumes it has no outcome yet.
  private func lists(_ outcome: Outcome) -> Bool {
    outcome != .cancelled || isAbandoned || listener?.listsResumable == true
  }

  /// The reader takes in nothing at present.
  package var isPaused: Bool { pausedFlag.load(ordering: .acquiring) }

  func setPaused(_ isPaused: Bool) {
    pausedFlag.store(isPaused, ordering: .releasing)
    readerSignal.set()
  }

  /// Call it before a lane can see the notifications, so that the account never has more outcomes
  /// than submissions.
  func submitted(_ count: Int) { state.withLock { $0.account.submitted += count } }

  /// Counts a line that is not sent.
  func settledAtIntake(line: UInt64, token: String, _ outcome: Outcome) {
    listener?.passedOver(line: line, token: token, outcome: outcome)
    change {
      $0.account.submitted += 1
      $0.account.count(outcome, 1)
    }
  }

  /// Reports a run that leaves the window to the listener. Its records must still be readable.
  ///
  /// - Parameter goneSince: By position; see ``OutcomeListener``.
  func report(_ settlement: Settlement, ring: NotificationRing, goneSince: [UInt64: UInt64]) {
    if case .accepted(let confirmation) = settlement.outcome {
      return reportAccepted(settlement, confirmation, ring: ring)
    }
    guard let listener, lists(settlement.outcome) else { return }
    ring.forEachNotification(from: settlement.from, to: settlement.to) { position, record in
      listener.notAccepted(
        line: record.ordinal, token: unsafe TokenBytes(bytes: record.token)?.description ?? "",
        outcome: settlement.outcome, goneSince: goneSince[position], isDoubted: record.mayHaveArrived)
    }
    if journalNumber != nil { listener.flush() }
  }

  /// Notifications that a listener gets together: what keeps them has rows of a handy size.
  private static let reportLimit = 2_000

  private func reportAccepted(_ settlement: Settlement, _ confirmation: Confirmation, ring: NotificationRing) {
    guard let acceptedListener else { return }
    var left = settlement.count
    var entries = OutcomeEntries(capacity: min(left, Self.reportLimit))
    ring.forEachNotification(from: settlement.from, to: settlement.to) { _, record in
      unsafe entries.append(line: record.ordinal, token: record.token, isDoubted: record.mayHaveArrived)
      guard entries.count == Self.reportLimit else { return }
      acceptedListener.accepted(entries, confirmation)
      left -= entries.count
      entries = OutcomeEntries(capacity: min(left, Self.reportLimit))
    }
    if entries.count > 0 { acceptedListener.accepted(entries, confirmation) }
  }

  /// Whether ``reportDoubt(lines:)`` has a listener.
  var wantsDoubt: Bool { acceptedListener != nil }

  /// Reports notifications that may have arrived and are sent again: each line each time.
  func reportDoubt(lines: [UInt64]) {
    if !lines.isEmpty { acceptedListener?.doubted(lines: lines) }
  }

  /// Reports recovered notifications that get an outcome without being resent, except for the first
  /// few.
  func report(_ recovered: RecoveredRun, _ outcome: Outcome, skipping skipped: Int = 0) {
    if let listener, lists(outcome) { recovered.report(outcome, to: listener, skipping: skipped) }
  }

  func flushReports() { listener?.flush() }

  /// Reports that the account is final.
  func reportEnd() { listener?.ended(account) }

  /// Counts the outcome of `count` notifications.
  func settled(_ count: Int, _ outcome: Outcome) { change { $0.account.count(outcome, count) } }

  func resent(_ count: Int) { state.withLock { $0.account.resent += count } }

  /// Counts notifications that may have arrived and are resent.
  ///
  /// - Parameters:
  ///   - count: Those that are in doubt for the first time.
  ///   - copies: All of them.
  func mayHaveArrivedTwice(_ count: Int, copies: Int) {
    guard count > 0 || copies > 0 else { return }
    state.withLock {
      $0.account.possibleDuplicates += count
      $0.account.possibleCopies += copies
    }
  }

  /// The part of the audience that was never read; nil while it is being read, and when all was
  /// read.
  package var unread: UnreadAudience? { state.withLock { $0.unread } }

  func stoppedReading(at unread: UnreadAudience?) { state.withLock { $0.unread = unread } }

  /// Nothing more will be submitted.
  func closeIntake() { change { $0.isIntakeClosed = true } }

  /// Returns when the intake is closed and every notification has its outcome.
  package func finished() async { await ended.wait(ignoringCancellation: true) }

  private func change(_ body: (inout State) -> Void) {
    let isFinished = state.withLock { state in
      body(&state)
      let inFlight = state.account.inFlight
      precondition(inFlight >= 0, "more outcomes than submissions")
      return state.isIntakeClosed && inFlight == 0
    }
    if isFinished { ended.open() }
  }
}
