package import PushWire
internal import Synchronization

/// Why an app makes no progress. Its lanes write it; the app and the command read it.
///
/// Usable from any thread. A lane reports what it cannot solve alone: a connection that ended
/// without progress, or a temporary refusal.
package final class AppStatus: Sendable {
  private let state: Mutex<ProgressWatchdog>
  private let isTroubled = Atomic<Bool>(false)
  private let planCheck: @Sendable (Instant) -> Void

  /// - Parameters:
  ///   - patience: See ``AppRules/patience``.
  ///   - planCheck: Called outside the lock with the time at which the app must begin to call
  ///     ``check(now:hasWork:)``.
  init(patience: Duration, planCheck: @escaping @Sendable (Instant) -> Void) {
    state = Mutex(ProgressWatchdog(patience: patience))
    self.planCheck = planCheck
  }

  // MARK: Reports

  /// Something has just stopped the app's progress.
  ///
  /// - Parameters:
  ///   - cause: A few words, such as `503 ServiceUnavailable`. They may contain text from the peer.
  ///   - evidence: How much they say.
  ///   - nextTryAt: Nil: no attempt is planned yet.
  func troubled(_ cause: String, _ evidence: ProgressWatchdog.Evidence, nextTryAt: Instant?, now: Instant) {
    let checkAt = state.withLock { state in
      // Set within the lock, so that the flag is never false during trouble.
      isTroubled.store(true, ordering: .releasing)
      return state.troubled(cause, evidence, nextTryAt: nextTryAt, now: now)
    }
    if let checkAt { planCheck(checkAt) }
  }

  /// The peer has settled notifications. Without trouble this is one atomic load.
  func progressed() {
    guard isTroubled.load(ordering: .acquiring) else { return }
    state.withLock { state in
      isTroubled.store(false, ordering: .releasing)
      state.progressed()
    }
  }

  /// A limit of the app itself makes it wait until `until`: connections per minute, or the age of a
  /// provider token. This does not count against patience.
  func delayed(_ cause: String, until: Instant, now: Instant) {
    state.withLock { $0.delayed(cause, until: until, now: now) }
  }

  /// A connection has ended, or failed to begin.
  func ended(_ end: ConversationEnd, now: Instant) {
    if end.ending != .ordinary { troubled(end.cause, end.evidence, nextTryAt: end.retryAt, now: now) }
  }

  /// The app restarts, or is halted: earlier trouble no longer counts.
  func restarted() {
    state.withLock { state in
      // The first progress after a suspension is also reported to the watchdog.
      isTroubled.store(state.isRetrying, ordering: .releasing)
      state.restarted()
    }
  }

  // MARK: Questions

  /// See ``ProgressWatchdog/check(now:hasWork:)``.
  func check(now: Instant, hasWork: Bool) -> ProgressWatchdog.Check {
    state.withLock { state in
      let check = state.check(now: now, hasWork: hasWork)
      if check == .calm { isTroubled.store(state.isRetrying, ordering: .releasing) }
      return check
    }
  }

  /// See ``ProgressWatchdog/retryPause()``.
  func retryPause() -> Duration { state.withLock { $0.retryPause() } }

  /// Changes the patience from now on.
  func replace(patience: Duration) { state.withLock { $0.patience = patience } }

  /// What stops the app's progress at present, for display.
  package func obstacle(now: Instant) -> Obstacle? {
    state.withLock { state in
      if let trouble = state.trouble {
        let nextTryIn = trouble.nextTryAt.map { $0.since(now) }
        return Obstacle(
          cause: trouble.cause, lasting: now.since(trouble.since), nextTryIn: nextTryIn, isOwnLimit: false)
      }
      return state.delay(now: now).map {
        Obstacle(cause: $0.cause, lasting: now.since($0.since), nextTryIn: nil, isOwnLimit: true)
      }
    }
  }

  /// The app was stopped because its patience was over.
  package var hasGivenUp: Bool { state.withLock { $0.hasGivenUp } }

  package var trouble: ProgressWatchdog.Trouble? { state.withLock { $0.trouble } }

  /// The distinct causes in the order of their first report, and the number of reports whose cause
  /// found no room among them.
  package var notes: (listed: [ProgressWatchdog.Note], unlistedCount: Int) {
    state.withLock { ($0.notes, $0.unlistedCount) }
  }
}

/// What an app waits for, in times relative to the present.
package struct Obstacle: Hashable, Sendable {
  /// A few printable words, such as `503 ServiceUnavailable`.
  package var cause: String
  package var lasting: Duration
  /// Zero: an attempt is being made. Nil: none is planned.
  package var nextTryIn: Duration?
  /// True: a limit of the app itself stops it, not the gateway.
  package var isOwnLimit: Bool

  package init(cause: String, lasting: Duration, nextTryIn: Duration?, isOwnLimit: Bool) {
    (self.cause, self.lasting, self.nextTryIn, self.isOwnLimit) = (cause, lasting, nextTryIn, isOwnLimit)
  }
}
