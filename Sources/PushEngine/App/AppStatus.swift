package import PushWire
internal import Synchronization

/// Why an app makes no progress, if it makes none. Its lanes write it; the app and the command read it.
///
/// From any thread. A lane reports here what it cannot mend itself: a connection that ended without
/// progress, or an answer that says "not now".
package final class AppStatus: Sendable {
  private let state: Mutex<TroubleMachine>
  private let isTroubled = Atomic<Bool>(false)
  private let planCheck: @Sendable (Instant) -> Void

  /// - Parameters:
  ///   - patience: see ``AppConfiguration/patience``.
  ///   - planCheck: called outside the lock with the moment at which the app must begin to call
  ///     ``check(now:hasWork:)``.
  init(patience: Duration, planCheck: @escaping @Sendable (Instant) -> Void) {
    state = Mutex(TroubleMachine(patience: patience))
    self.planCheck = planCheck
  }

  // MARK: Reports

  /// Something has just kept the app from progress.
  ///
  /// - Parameters:
  ///   - cause: a few words, such as `503 ServiceUnavailable`. Text of the peer's may be in it.
  ///   - nextTryAt: nil if no attempt is planned yet.
  func troubled(_ cause: String, nextTryAt: Instant?, now: Instant) {
    let checkAt = state.withLock { state in
      // Within the lock, so that the flag is never false while there is trouble.
      isTroubled.store(true, ordering: .releasing)
      return state.troubled(cause, nextTryAt: nextTryAt, now: now)
    }
    if let checkAt { planCheck(checkAt) }
  }

  /// Notifications have got their outcome by the peer's doing. Without trouble this is one atomic load.
  func progressed() {
    guard isTroubled.load(ordering: .acquiring) else { return }
    state.withLock { state in
      isTroubled.store(false, ordering: .releasing)
      state.progressed()
    }
  }

  /// A limit of our own makes the app wait until `until`: connections per minute, or the age of a
  /// provider token. It costs no patience.
  func held(_ cause: String, until: Instant, now: Instant) {
    state.withLock { $0.held(cause, until: until, now: now) }
  }

  /// A connection has ended, or failed to begin.
  func ended(_ ending: PoolMachine.Ending, cause: String, nextTryAt: Instant?, now: Instant) {
    if ending != .ordinary { troubled(cause, nextTryAt: nextTryAt, now: now) }
  }

  // MARK: Questions

  /// See ``TroubleMachine/check(now:hasWork:)``.
  func check(now: Instant, hasWork: Bool) -> TroubleMachine.Check {
    state.withLock { state in
      let check = state.check(now: now, hasWork: hasWork)
      if check == .calm { isTroubled.store(false, ordering: .releasing) }
      return check
    }
  }

  /// What keeps the app from progress at present, for whoever shows it.
  package func obstacle(now: Instant) -> Obstacle? {
    state.withLock { state in
      if let trouble = state.trouble {
        let nextTryIn = trouble.nextTryAt.map { $0.since(now) }
        return Obstacle(
          cause: trouble.cause, lasting: now.since(trouble.since), nextTryIn: nextTryIn, isOwnLimit: false)
      }
      return state.hold(now: now).map {
        Obstacle(cause: $0.cause, lasting: now.since($0.since), nextTryIn: nil, isOwnLimit: true)
      }
    }
  }

  /// The app was stopped because its patience was over.
  package var hasGivenUp: Bool { state.withLock { $0.hasGivenUp } }

  package var trouble: TroubleMachine.Trouble? { state.withLock { $0.trouble } }

  /// The distinct causes in the order in which they came up, and how many reports had a cause that
  /// found no room among them.
  package var notes: (listed: [TroubleMachine.Note], unlistedCount: Int) {
    state.withLock { ($0.notes, $0.unlistedCount) }
  }
}

/// What an app waits for, in times relative to the present.
package struct Obstacle: Hashable, Sendable {
  /// A few printable words, such as `503 ServiceUnavailable`.
  package var cause: String
  package var lasting: Duration
  /// Zero: it is under way. Nil: none is planned.
  package var nextTryIn: Duration?
  /// A limit of our own, not the gateway, holds the app back.
  package var isOwnLimit: Bool

  package init(cause: String, lasting: Duration, nextTryIn: Duration?, isOwnLimit: Bool) {
    self.cause = cause
    self.lasting = lasting
    self.nextTryIn = nextTryIn
    self.isOwnLimit = isOwnLimit
  }
}
