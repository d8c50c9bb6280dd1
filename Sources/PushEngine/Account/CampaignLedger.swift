internal import PushTransport
internal import PushWire
internal import Synchronization

/// The books of one campaign: written by its reader and by every lane, a batch at a time, and read by whoever shows progress.
package final class CampaignLedger: Sendable {
  private struct State {
    var account = Account()
    var isIntakeClosed = false
    var waiters: [CheckedContinuation<Void, Never>] = []

    var isFinished: Bool { isIntakeClosed && account.inFlight == 0 }
  }

  private let state = Mutex(State())
  private let cancelledFlag = Atomic<Bool>(false)
  let frames: CampaignFrames
  private let listener: (any OutcomeListener)?

  init(frames: CampaignFrames, listener: (any OutcomeListener)?) {
    self.frames = frames
    self.listener = listener
  }

  package var account: Account { state.withLock { $0.account } }
  /// What is not sent yet will not be; what is under way still gets its outcome.
  package var isCancelled: Bool { cancelledFlag.load(ordering: .acquiring) }

  func cancel() {
    cancelledFlag.store(true, ordering: .releasing)
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

  /// A run has left the window. Its records are still readable.
  func settled(_ settlement: Settlement, ring: NotificationRing) {
    if let listener, !settlement.outcome.isAccepted {
      ring.forEachNotification(from: settlement.from, to: settlement.to) { _, record in
        let token = unsafe DeviceToken(bytes: record.token)?.description ?? ""
        listener.notAccepted(line: record.ordinal, token: token, outcome: settlement.outcome)
      }
    }
    change { $0.account.count(settlement.outcome, settlement.count) }
  }

  func resent(_ count: Int) {
    state.withLock { $0.account.resent += count }
  }

  func mayHaveArrivedTwice(_ count: Int) {
    state.withLock { $0.account.possibleDuplicates += count }
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
