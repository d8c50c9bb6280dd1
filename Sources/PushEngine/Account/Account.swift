package import PushWire

/// The outcomes of a campaign or an app, counted.
///
/// ``submitted`` is always the sum of all outcomes and ``inFlight``.
package struct Account: Hashable, Sendable {
  package var submitted = 0
  package var confirmed = 0
  package var quiet = 0
  package var rejected: [Rejection: Int] = [:]
  package var suppressed = 0
  package var capped = 0
  package var holdout = 0
  package var expired = 0
  package var held = 0
  package var cancelled = 0
  package var unknown = 0
  /// How often a notification was resent, for any reason.
  package var resent = 0
  /// Notifications that were resent after a silent close, although they may have arrived before.
  package var possibleDuplicates = 0
  /// How often a notification that may have arrived was resent: the most copies beyond the first
  /// that devices can have received. Counted when it goes back into the queue, so some may not have
  /// been sent.
  package var possibleCopies = 0

  package init() {}

  package var accepted: Int { confirmed + quiet }
  package var rejectedTotal: Int { rejected.values.reduce(0, +) }
  /// Notifications with an outcome.
  package var settled: Int { accepted + rejectedTotal + withheld + expired + held + cancelled + unknown }
  /// Those that could have been sent, and were not to be.
  package var withheld: Int { suppressed + capped + holdout }
  /// Notifications without an outcome.
  package var inFlight: Int { submitted - settled }

  package mutating func count(_ outcome: Outcome, _ count: Int) {
    switch outcome {
    case .accepted(.confirmed): confirmed += count
    case .accepted(.quiet): quiet += count
    case .rejected(let reason): rejected[reason, default: 0] += count
    case .suppressed: suppressed += count
    case .capped: capped += count
    case .holdout: holdout += count
    case .expired: expired += count
    case .held: held += count
    case .cancelled: cancelled += count
    case .unknown: unknown += count
    }
  }

  /// The account of two campaigns of one app.
  package static func + (left: Account, right: Account) -> Account {
    var sum = left
    sum += right
    return sum
  }

  package static func += (sum: inout Account, right: Account) { sum.add(right, times: 1) }

  /// What was counted since the account was `earlier`.
  package static func - (account: Account, earlier: Account) -> Account {
    var difference = account
    difference.add(earlier, times: -1)
    return difference
  }

  private mutating func add(_ other: Account, times factor: Int) {
    submitted += factor * other.submitted
    confirmed += factor * other.confirmed
    quiet += factor * other.quiet
    for (reason, count) in other.rejected { rejected[reason, default: 0] += factor * count }
    suppressed += factor * other.suppressed
    capped += factor * other.capped
    holdout += factor * other.holdout
    expired += factor * other.expired
    held += factor * other.held
    cancelled += factor * other.cancelled
    unknown += factor * other.unknown
    resent += factor * other.resent
    possibleDuplicates += factor * other.possibleDuplicates
    possibleCopies += factor * other.possibleCopies
  }
}
