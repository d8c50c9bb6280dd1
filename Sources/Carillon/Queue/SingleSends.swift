internal import PushEngine
internal import PushTransport
internal import PushWire
internal import Synchronization

/// The answers to what one caller hands over. Keeps the first error.
final class AnswerCount: Sendable {
  /// `missingCount` is one too high until the caller waits.
  private let state: Mutex<(missingCount: Int, error: CarillonError?)> = Mutex((1, nil))
  private let complete = Gate()

  /// To be called before the answers can come.
  func expect(_ count: Int) { state.withLock { $0.missingCount += count } }

  func add(_ error: CarillonError?) {
    let isComplete = state.withLock { state in
      state.error = state.error ?? error
      state.missingCount -= 1
      return state.missingCount == 0
    }
    if isComplete { complete.open() }
  }

  /// To be called once, when every answer is expected.
  func wait() async throws(CarillonError) {
    add(nil)
    await complete.wait(ignoringCancellation: true)
    if let error = state.withLock({ $0.error }) { throw error }
  }
}

/// Gives each caller the outcome of its notification.
final class SingleSendAnswers: QueueOwner {
  typealias Answer = @Sendable (Result<PushOutcome, CarillonError>) -> Void

  private let answers = Mutex<[UInt64: Answer]>([:])

  func expect(_ line: UInt64, _ answer: @escaping Answer) { answers.withLock { $0[line] = answer } }

  func recorded(through line: UInt64) {}
  func doubted(lines: [UInt64]) {}

  func accepted(_ entries: OutcomeEntries, _ confirmation: PushWire.Confirmation) {
    let outcome = PushOutcome(.accepted(confirmation))
    for answer in answers.withLock({ known in entries.lines.compactMap { known.removeValue(forKey: $0) } }) {
      answer(.success(outcome))
    }
  }

  func notAccepted(
    line: UInt64, token: String, outcome: PushWire.Outcome, goneSince: UInt64?, isDoubted: Bool
  ) -> Bool {
    let answer = answers.withLock { $0.removeValue(forKey: line) }
    answer?(.success(PushOutcome(outcome, goneSince: goneSince)))
    return true
  }

  /// Callers that still wait get this answer.
  func end(_ result: Result<PushOutcome, CarillonError>) {
    for answer in answers.withLock({ exchange(&$0, with: [:]) }).values { answer(result) }
  }
}

/// The single sends of one app: callers wait here for their outcomes.
final class SingleSends: Sendable {
  typealias Queue = NotificationQueue<SingleSendAnswers>

  private struct State {
    var pendingCount = 0
    var nextWaiter: UInt64 = 0
    var waiters: [(number: UInt64, continuation: CheckedContinuation<Bool, Never>)] = []
    /// Callers whose tasks were cancelled before they had begun to wait.
    var cancelledWaiters: Set<UInt64> = []
  }

  private static let limits = Queue.Limits(idle: .seconds(1))

  private let state = Mutex(State())
  private let queues: NotificationQueues<SingleSendAnswers>

  /// - Parameter send: sends a queue to its end.
  init(
    entry: AppEntry, engine: RunningEngine, send: @escaping @Sendable (Queue, PreparedNotification.Group) async -> Void
  ) {
    queues = NotificationQueues { group in
      Queue(SingleSendAnswers(), Self.limits, gauge: nil, entry: entry, loop: engine.loop)
    } begin: { queue, group in
      if !engine.jobs.put({ await send(queue, group) }) { Self.end(queue, .failure(DeploymentCore.hasEnded)) }
    }
  }

  /// The campaign of a queue has ended. Callers that still wait get this answer.
  static func end(_ queue: Queue, _ result: Result<PushOutcome, CarillonError>) {
    queue.drop()
    queue.owner.end(result)
  }

  func hasEnded(_ queue: Queue) { queues.hasEnded(queue) }

  func send(_ prepared: PreparedNotification, to token: DeviceToken) async throws(CarillonError) -> PushOutcome {
    guard await takePlace() else {
      throw CarillonError(.cancelled, "The task was cancelled before the notification was handed over.")
    }
    let result = await withCheckedContinuation { continuation in
      enqueue(prepared, to: token) { continuation.resume(returning: $0) }
    }
    leavePlace()
    return try result.get()
  }

  func send(_ batch: [(PreparedNotification, DeviceToken)]) async throws(CarillonError) -> [PushOutcome] {
    guard !batch.isEmpty else { return [] }
    let outcomes = Mutex([PushOutcome](repeating: .cancelled, count: batch.count))
    let answers = AnswerCount()
    answers.expect(batch.count)
    for (index, (prepared, token)) in batch.enumerated() {
      guard await takePlace() else {
        // The rest is not handed over.
        answers.expect(index - batch.count)
        break
      }
      enqueue(prepared, to: token) { result in
        switch result {
        case .success(let outcome):
          outcomes.withLock { $0[index] = outcome }
          answers.add(nil)
        case .failure(let error): answers.add(error)
        }
        self.leavePlace()
      }
    }
    try await answers.wait()
    return outcomes.withLock { $0 }
  }

  /// Hands a notification over; the caller has a place for it.
  private func enqueue(
    _ prepared: PreparedNotification, to token: DeviceToken, _ answer: @escaping SingleSendAnswers.Answer
  ) {
    let line = queues.enqueue(to: prepared.group) { queue in
      queue.enqueue(prepared, to: token.wire) { queue.owner.expect($0, answer) }
    }
    if line == nil { answer(.failure(DeploymentCore.hasEnded)) }
  }

  // MARK: Places

  /// False if the task was cancelled meanwhile.
  private func takePlace() async -> Bool {
    let number: UInt64? = state.withLock { state in
      guard state.pendingCount >= PushApp.pendingLimit || !state.waiters.isEmpty else {
        state.pendingCount += 1
        return nil
      }
      state.nextWaiter += 1
      return state.nextWaiter
    }
    guard let number else { return true }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let answer: Bool? = state.withLock { state in
          if state.cancelledWaiters.remove(number) != nil { return false }
          if state.pendingCount < PushApp.pendingLimit, state.waiters.isEmpty {
            state.pendingCount += 1
            return true
          }
          state.waiters.append((number, continuation))
          return nil
        }
        if let answer { continuation.resume(returning: answer) }
      }
    } onCancel: {
      let waiter = state.withLock { state in
        guard let index = state.waiters.firstIndex(where: { $0.number == number }) else {
          state.cancelledWaiters.insert(number)
          return CheckedContinuation<Bool, Never>?.none
        }
        return state.waiters.remove(at: index).continuation
      }
      waiter?.resume(returning: false)
    }
  }

  /// The place goes to the one who has waited longest.
  private func leavePlace() {
    let waiter = state.withLock { state -> CheckedContinuation<Bool, Never>? in
      guard state.waiters.isEmpty else { return state.waiters.removeFirst().continuation }
      state.pendingCount -= 1
      return nil
    }
    waiter?.resume(returning: true)
  }
}
