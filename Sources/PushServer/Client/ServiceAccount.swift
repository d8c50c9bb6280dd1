package import Carillon

/// An account as a service sends it.
package struct ServiceAccount: Decodable, Sendable {
  private struct App: Decodable, Sendable {
    struct Accepted: Decodable, Sendable {
      var confirmed: Int
      var quiet: Int
    }
    struct Rejected: Decodable, Sendable {
      var byReason: [String: Int]
    }
    var submitted: Int
    var accepted: Accepted
    var rejected: Rejected
    var suppressed: Int
    var expired: Int
    var held: Int
    var cancelled: Int
    var unknown: Int
    var resent: Int
    var possibleDuplicates: Int
    var possibleCopies: Int
    var notes: [String]

    var account: CampaignAccount {
      var account = CampaignAccount()
      account.submitted = submitted
      account.confirmed = accepted.confirmed
      account.quiet = accepted.quiet
      account.rejectedByReason = rejected.byReason
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
  }

  private var apps: [String: App]
  private var seconds: Double

  /// For the table.
  package var snapshot: AccountSnapshot {
    let shown = apps.sorted { $0.key < $1.key }.map { id, app in
      var shown = AccountSnapshot.App(id: id, account: app.account)
      shown.notes = app.notes
      return shown
    }
    return AccountSnapshot(apps: shown, seconds: seconds)
  }
}
