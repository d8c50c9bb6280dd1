internal import PushEngine
internal import PushWire

/// What became of a campaign, as the command shows it: plain numbers per app.
package struct AccountSnapshot: Hashable, Sendable {
  package struct App: Hashable, Sendable {
    package var id: String
    package var submitted = 0
    package var confirmed = 0
    package var quiet = 0
    /// By reason, such as `8 invalid token` or `malformed token`.
    package var rejected: [String: Int] = [:]
    package var suppressed = 0
    package var expired = 0
    package var held = 0
    package var cancelled = 0
    package var unknown = 0
    package var resent = 0
    package var possibleDuplicates = 0
    package var possibleCopies = 0
    /// Why the app stopped early, if it did; standard error says it beside the table.
    package var failure: String?
    /// What kept the app from progress, one phrase each.
    package var notes: [String] = []
    /// Token files that were not read to their end.
    package var neverRead: [UnreadPart] = []

    package init(id: String) { self.id = id }

    package var accepted: Int { confirmed + quiet }
    package var rejectedTotal: Int { rejected.values.reduce(0, +) }
    /// With an outcome.
    package var settled: Int { accepted + rejectedTotal + suppressed + expired + held + cancelled + unknown }
  }

  /// In the order in which they are shown.
  package var apps: [App]
  package var seconds: Double
  /// So many had their outcome before these seconds began.
  package var settledBefore = 0

  /// Notifications that got their outcome, per second.
  package var perSecond: Double {
    seconds > 0 ? Double(max(0, apps.map(\.settled).reduce(0, +) - settledBefore)) / seconds : 0
  }

  /// The same, with what has no outcome yet as unknown, so that it adds up although nobody waits
  /// any longer; and how many these are.
  package var asIfOver: (account: AccountSnapshot, inFlightCount: Int) {
    var over = self
    for index in over.apps.indices { over.apps[index].unknown += over.apps[index].submitted - over.apps[index].settled }
    return (over, over.apps.map(\.unknown).reduce(0, +) - apps.map(\.unknown).reduce(0, +))
  }

  /// The reasons of a rejection as they are listed: statuses by number, then the others by name.
  package static func inOrder(_ reasons: [String: Int]) -> [(reason: String, count: Int)] {
    func rank(_ reason: String) -> (Int, String) {
      (reason.split(separator: " ").first.flatMap { Int($0) } ?? Int.max, reason)
    }
    return reasons.filter { $0.value > 0 }.map { ($0.key, $0.value) }.sorted { rank($0.0) < rank($1.0) }
  }
}

extension AccountSnapshot.App {
  init(id: String, account: Account) {
    self.init(id: id)
    submitted = account.submitted
    confirmed = account.confirmed
    quiet = account.quiet
    rejected = Dictionary(account.rejected.map { ("\($0.key)", $0.value) }, uniquingKeysWith: +)
    suppressed = account.suppressed
    expired = account.expired
    held = account.held
    cancelled = account.cancelled
    unknown = account.unknown
    resent = account.resent
    possibleDuplicates = account.possibleDuplicates
    possibleCopies = account.possibleCopies
  }

  /// Lines that never became a notification.
  var rejectedAtIntake: Int {
    Rejection.atIntake.map { rejected["\($0)"] ?? 0 }.reduce(0, +)
  }
}
