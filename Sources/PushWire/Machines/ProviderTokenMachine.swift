/// When the token of one key is made, kept and replaced. One such machine serves all apps and connections of the process that use the key.
///
/// The service wants a token replaced at least every 60 minutes, and no oftener than every 20 (HTTP2ProviderAPI.md, section 5). The one exception:
/// a token that the service has never accepted, because our clock was wrong when it was made, is replaced as soon as the service's own clock is known;
/// this once in 20 minutes.
package struct ProviderTokenMachine: Sendable {
  package struct Policy: Sendable {
    /// From this age on, the next use makes a new one.
    package var refreshAge = Duration.seconds(45 * 60)
    /// At this age a token is of no use any more, ours to give or not.
    package var ageLimit = Duration.seconds(59 * 60)
    /// No token younger than this is replaced.
    package var replacementAge = Duration.seconds(20 * 60)
    /// Clocks that differ by less than this are taken to agree.
    package var skewTolerance: Int64 = 60

    package init() {}
  }

  package enum Decision: Hashable, Sendable {
    /// The present token, known by its generation.
    case use(generation: UInt64)
    /// Make one with this time of issue, in seconds since 1970, and say ``minted(issuedAt:now:)``.
    case mint(issuedAt: Int64)
    /// There is no token that could be used, and none may be made before this.
    case wait(until: Instant)
  }

  /// What to do with a notification whose token the service has refused.
  package enum Reaction: Hashable, Sendable {
    /// Send it again with what ``token(now:unixSeconds:)`` says then, on a new connection.
    case resend
    /// The key itself is what the service refuses: pause, keep the queue, raise an alarm.
    case pause
  }

  /// The service's answer to a token.
  package enum Complaint: Hashable, Sendable {
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
    /// Our clock's correction when it was made.
    var correction: Int64
    /// The service has taken a request with it.
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
  /// The service's clock less ours, in seconds; 0 until it has complained.
  package private(set) var correction: Int64 = 0

  package init(policy: Policy = Policy()) {
    self.policy = policy
  }

  /// The token for a request now.
  /// - Parameter unixSeconds: what our own clock says.
  package mutating func token(now: Instant, unixSeconds: Int64) -> Decision {
    let issuedAt = unixSeconds + correction
    guard let present else { return notBefore.map { $0 > now ? .wait(until: $0) : .mint(issuedAt: issuedAt) } ?? .mint(issuedAt: issuedAt) }
    if present.isRefused {
      if isCorrectable(present, now: now) {
        exceptedUntil = now + policy.replacementAge
        return .mint(issuedAt: issuedAt)
      }
      let earliest = earliestReplacement(of: present)
      return earliest <= now ? .mint(issuedAt: issuedAt) : .wait(until: earliest)
    }
    // By both clocks: the monotonic one stands still while a machine sleeps, the other one can be set.
    let age = max(now.since(present.mintedAt), .seconds(max(0, issuedAt - present.issuedAt)))
    guard age >= policy.refreshAge else { return .use(generation: generation) }
    // One that is too old by either clock is of no use to anyone, so what it may not be replaced for is over.
    if age >= policy.ageLimit || earliestReplacement(of: present) <= now { return .mint(issuedAt: issuedAt) }
    return .use(generation: generation)
  }

  /// A token was made as asked for.
  package mutating func minted(issuedAt: Int64, now: Instant) {
    generation += 1
    present = Token(issuedAt: issuedAt, mintedAt: now, correction: correction)
  }

  /// The service has taken a request that carried this token.
  package mutating func accepted(generation: UInt64) {
    if generation == self.generation { present?.isAccepted = true }
  }

  /// The service has complained about the token of this generation.
  ///
  /// - Parameters:
  ///   - date: the `date` header of the answer, in seconds since 1970.
  ///   - unixSeconds: what our own clock says.
  package mutating func complained(_ complaint: Complaint, generation: UInt64, date: Int64?, now: Instant, unixSeconds: Int64) -> Reaction {
    // About one that has been replaced meanwhile: the next one may be good.
    guard generation == self.generation, let token = present else { return .resend }
    if complaint == .tooManyUpdates {
      // It stays in use, and none is made for as long as if it were new.
      notBefore = max(notBefore ?? .start, now + policy.replacementAge)
      return .resend
    }
    if let date {
      let measured = date - unixSeconds
      if (measured - correction).magnitude >= UInt64(policy.skewTolerance) { correction = measured.magnitude < UInt64(policy.skewTolerance) ? 0 : measured }
    }
    let wasWrong = (correction - token.correction).magnitude >= UInt64(policy.skewTolerance)
    switch complaint {
    case .expired:
      present?.isRefused = true
      return .resend
    case .invalid where wasWrong:
      present?.isRefused = true
      return .resend
    case .invalid, .tooManyUpdates:
      // The clocks agree: it is the key, the team, or the environment.
      return .pause
    }
  }

  /// A token that was made by a wrong clock and that nobody ever took counts as none.
  private func isCorrectable(_ token: Token, now: Instant) -> Bool {
    exceptedUntil <= now && !token.isAccepted && (correction - token.correction).magnitude >= UInt64(policy.skewTolerance)
  }

  private func earliestReplacement(of token: Token) -> Instant {
    max(token.mintedAt + policy.replacementAge, notBefore ?? .start)
  }
}
