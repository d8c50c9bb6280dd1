internal import Carillon
internal import Foundation

/// An account as the store keeps it.
struct AccountRecord: Codable, Sendable {
  var submitted: Int
  var confirmed: Int
  var quiet: Int
  var rejected: [String: Int]
  var suppressed: Int
  var expired: Int
  var held: Int
  var cancelled: Int
  var unknown: Int
  var resent: Int
  var possibleDuplicates: Int
  var possibleCopies: Int

  init(_ account: CampaignAccount) {
    submitted = account.submitted
    confirmed = account.confirmed
    quiet = account.quiet
    rejected = account.rejectedByReason
    suppressed = account.suppressed
    expired = account.expired
    held = account.held
    cancelled = account.cancelled
    unknown = account.unknown
    resent = account.resent
    possibleDuplicates = account.possibleDuplicates
    possibleCopies = account.possibleCopies
  }

  var account: CampaignAccount {
    var account = CampaignAccount()
    account.submitted = submitted
    account.confirmed = confirmed
    account.quiet = quiet
    account.rejectedByReason = rejected
    account.suppressed = suppressed
    account.expired = expired
    account.held = held
    account.cancelled = cancelled
    account.unknown = unknown
    account.resent = resent
    account.possibleDuplicates = possibleDuplicates
    account.possibleCopies = possibleCopies
    return account
  }

  var bytes: [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    // Plain values can always be encoded.
    return (try? encoder.encode(self)).map(Array.init) ?? []
  }

  /// Nil for what another program wrote.
  init?(reading bytes: [UInt8]) {
    guard let read = try? JSONDecoder().decode(AccountRecord.self, from: Data(bytes)) else { return nil }
    self = read
  }
}

extension CampaignAccount {
  /// Of two parts of a campaign.
  static func + (first: CampaignAccount, second: CampaignAccount) -> CampaignAccount {
    var sum = first
    sum.submitted += second.submitted
    sum.confirmed += second.confirmed
    sum.quiet += second.quiet
    sum.rejectedByReason.merge(second.rejectedByReason, uniquingKeysWith: +)
    sum.suppressed += second.suppressed
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
