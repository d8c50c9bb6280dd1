package import PushEngine
internal import PushWire

/// What became of the notifications of a campaign.
///
/// It always adds up: ``submitted`` is the sum of ``accepted``, ``rejected``, ``others`` and
/// ``inFlight``, at every moment and through connections that end, resends and restarts.
public struct CampaignAccount: Hashable, Sendable {
  /// Notifications that were taken in: one for each recipient that has been read.
  public var submitted = 0
  /// Accepted, and the gateway said so; see ``PushOutcome/Confirmation/confirmed``.
  public var confirmed = 0
  /// Accepted by silence; see ``PushOutcome/Confirmation/quiet``. Always 0 over HTTP/2.
  public var quiet = 0
  /// How many notifications were rejected for each reason; see ``PushOutcome/Rejection/reason``.
  public var rejectedByReason: [String: Int] = [:]
  /// See ``PushOutcome/suppressed``.
  public var suppressed = 0
  /// See ``PushOutcome/capped``.
  public var capped = 0
  /// See ``PushOutcome/holdout``.
  public var holdout = 0
  /// See ``PushOutcome/expired``.
  public var expired = 0
  /// See ``PushOutcome/held``.
  public var held = 0
  /// See ``PushOutcome/cancelled``.
  public var cancelled = 0
  /// See ``PushOutcome/unknown``.
  public var unknown = 0
  /// How often a notification was sent again, whatever the reason.
  public var resent = 0
  /// Notifications that were sent again although an earlier connection may have delivered them. At
  /// most this many devices got one twice.
  public var possibleDuplicates = 0
  /// The most copies that devices can have got beyond the first.
  public var possibleCopies = 0

  /// Makes an empty account.
  public init() {}

  /// ``confirmed`` and ``quiet`` together.
  public var accepted: Int { confirmed + quiet }
  /// Rejected notifications, whatever the reason.
  public var rejected: Int { rejectedByReason.values.reduce(0, +) }
  /// ``suppressed``, ``capped``, ``holdout``, ``expired``, ``held``, ``cancelled`` and ``unknown``
  /// together.
  public var others: Int { suppressed + capped + holdout + expired + held + cancelled + unknown }
  /// Notifications with an outcome.
  public var settled: Int { accepted + rejected + others }
  /// Notifications without one yet.
  public var inFlight: Int { submitted - settled }

  package init(_ engine: Account) {
    (submitted, confirmed, quiet) = (engine.submitted, engine.confirmed, engine.quiet)
    for (reason, count) in engine.rejected { rejectedByReason[reason.description, default: 0] += count }
    suppressed = engine.suppressed
    capped = engine.capped
    holdout = engine.holdout
    expired = engine.expired
    held = engine.held
    cancelled = engine.cancelled
    unknown = engine.unknown
    resent = engine.resent
    possibleDuplicates = engine.possibleDuplicates
    possibleCopies = engine.possibleCopies
  }
}

extension CampaignAccount {
  /// Adds the accounts of two parts of a campaign.
  package static func + (first: CampaignAccount, second: CampaignAccount) -> CampaignAccount {
    var sum = first
    sum.submitted += second.submitted
    sum.confirmed += second.confirmed
    sum.quiet += second.quiet
    sum.rejectedByReason.merge(second.rejectedByReason, uniquingKeysWith: +)
    sum.suppressed += second.suppressed
    sum.capped += second.capped
    sum.holdout += second.holdout
    sum.expired += second.expired
    sum.held += second.held
    sum.cancelled += second.cancelled
    sum.unknown += second.unknown
    sum.resent += second.resent
    sum.possibleDuplicates += second.possibleDuplicates
    sum.possibleCopies += second.possibleCopies
    return sum
  }
}
