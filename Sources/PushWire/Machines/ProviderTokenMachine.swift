/// Decides when the token of one key is made, kept and replaced. One machine serves all apps and
/// connections of the process that use the key.
///
/// The service wants a token replaced at least every 60 minutes and at most every 20
/// (HTTP2ProviderAPI.md, section 5). There is one exception. A token that the service has never
/// accepted, because the local clock was wrong when it was made, is replaced as soon as the
/// service's clock is known; once in 20 minutes.
///
/// Tokens are issued at full and half hours, and each is kept until the next one. So all processes
/// that use a key, on however many machines, have tokens with the same time of issue: the service
/// counts them by key.
package struct ProviderTokenMachine: Sendable {
  package struct Policy: Sendable {
    /// In seconds. Tokens are issued at multiples of it since 1970. At most the difference of
    /// ``ageLimit`` and ``replacementAge``: a process may begin shortly before such an instant.
    package var step: Int64 = 30 * 60
    /// From this age on, the next use makes a new token, whatever the clock says.
    package var refreshAge = Duration.seconds(45 * 60)
    /// From this age on, a token is useless and may be replaced.
    package var ageLimit = Duration.seconds(59 * 60)
    /// No token younger than this is replaced.
    package var replacementAge = Duration.seconds(20 * 60)
    /// Clocks that differ by less than this, in seconds, count as equal.
    package var skewTolerance: Int64 = 60

    package init() {}
  }

  package enum Decision: Hashable, Sendable {
    /// Use the present token, which has this generation.
    case use(generation: UInt64)
    /// Make a token with this time of issue, in seconds since 1970, and call
    /// ``minted(issuedAt:now:)``.
    case mint(issuedAt: Int64)
    /// There is no usable token, and none may be made before this time.
    case wait(until: Instant)
  }

  /// What to do with a notification whose token the service has refused.
  package enum Reaction: Hashable, Sendable {
    /// Resend it on a new connection, with the token that ``token(now:unixSeconds:)`` then returns.
    case resend
    /// The service refuses the key itself: pause, keep the queue, raise an alarm.
    case pause
  }

  /// The service's refusal of a token.
  package enum TokenRefusal: Hashable, Sendable {
    /// ExpiredProviderToken.
    case expired
    /// InvalidProviderToken.
    case invalid
    /// TooManyProviderTokenUpdates.
    case tooManyUpdates
  }

  private struct Token {
    var issuedAt: Int64
    var mintedAt: Instant
    /// How old it was when it was made.
    var firstAge: Duration
    /// The correction of the local clock when the token was made.
    var correction: Int64
    /// The service has accepted a request with it.
    var isAccepted = false
    /// The service has refused it.
    var isRefused = false
  }

  private let policy: Policy
  private var present: Token?
  /// Counts tokens; 0 before the first.
  package private(set) var generation: UInt64 = 0
  private var notBefore: Instant?
  private var exceptedUntil = Instant.start
  /// Of the token that is to be made.
  private var firstAge = Duration.zero
  /// The service's clock minus the local one, in seconds; 0 until the service has refused a token.
  package private(set) var correction: Int64 = 0

  package init(policy: Policy = Policy()) { self.policy = policy }

  /// The token for a request now.
  ///
  /// - Parameter unixSeconds: the local clock.
  package mutating func token(now: Instant, unixSeconds: Int64) -> Decision {
    let time = unixSeconds + correction
    let issuedAt = time - ((time % policy.step) + policy.step) % policy.step
    firstAge = .seconds(time - issuedAt)
    guard let present else {
      return notBefore.map { $0 > now ? .wait(until: $0) : .mint(issuedAt: issuedAt) } ?? .mint(issuedAt: issuedAt)
    }
    if present.isRefused {
      // Not the time of issue that may have been refused.
      firstAge = .zero
      if isCorrectable(present, now: now) {
        exceptedUntil = now + policy.replacementAge
        return .mint(issuedAt: time)
      }
      let earliest = earliestReplacement(of: present)
      return earliest <= now ? .mint(issuedAt: time) : .wait(until: earliest)
    }
    // Both clocks count: the monotonic one stands still while a machine sleeps, and the other can
    // be set.
    let age = max(now.since(present.mintedAt) + present.firstAge, .seconds(max(0, time - present.issuedAt)))
    guard issuedAt > present.issuedAt || age >= policy.refreshAge else { return .use(generation: generation) }
    // A token that is too old by either clock is useless, so the minimum age no longer matters.
    if age >= policy.ageLimit || earliestReplacement(of: present) <= now { return .mint(issuedAt: issuedAt) }
    return .use(generation: generation)
  }

  /// The requested token has been made.
  package mutating func minted(issuedAt: Int64, now: Instant) {
    generation += 1
    present = Token(issuedAt: issuedAt, mintedAt: now, firstAge: firstAge, correction: correction)
  }

  /// The service has accepted a request with this token.
  package mutating func accepted(generation: UInt64) {
    if generation == self.generation { present?.isAccepted = true }
  }

  /// The service has refused the token of this generation.
  ///
  /// - Parameters:
  ///   - date: the `date` header of the answer, in seconds since 1970.
  ///   - unixSeconds: the local clock.
  package mutating func refused(
    _ refusal: TokenRefusal, generation: UInt64, date: Int64?, now: Instant, unixSeconds: Int64
  ) -> Reaction {
    // The refusal concerns a token that has been replaced. The present one may be good.
    guard generation == self.generation, let token = present else { return .resend }
    if refusal == .tooManyUpdates {
      // The token stays in use, and none is made for as long as if it were new.
      notBefore = max(notBefore ?? .start, now + policy.replacementAge)
      return .resend
    }
    if let date {
      let measured = date - unixSeconds
      if (measured - correction).magnitude >= UInt64(policy.skewTolerance) {
        correction = measured.magnitude < UInt64(policy.skewTolerance) ? 0 : measured
      }
    }
    let wasWrong = (correction - token.correction).magnitude >= UInt64(policy.skewTolerance)
    switch refusal {
    case .expired:
      present?.isRefused = true
      return .resend
    case .invalid where wasWrong:
      present?.isRefused = true
      return .resend
    case .invalid, .tooManyUpdates:
      // The clocks agree, so the key, the team or the environment is wrong.
      return .pause
    }
  }

  /// A token that was made with a wrong clock and was never accepted may be replaced at once.
  private func isCorrectable(_ token: Token, now: Instant) -> Bool {
    exceptedUntil <= now && !token.isAccepted
      && (correction - token.correction).magnitude >= UInt64(policy.skewTolerance)
  }

  private func earliestReplacement(of token: Token) -> Instant {
    max(token.mintedAt + policy.replacementAge, notBefore ?? .start)
  }
}
