package import Carillon
internal import PushWire

/// What became of a campaign through each of its apps, as the command shows it.
package struct AccountSnapshot: Hashable, Sendable {
  package struct App: Hashable, Sendable {
    package var id: String
    package var account: CampaignAccount
    /// Why the app stopped early, if it did; standard error says it beside the table.
    package var failure: String?
    /// What kept the app from progress, one phrase each.
    package var notes: [String] = []
    /// Token files that were not read to their end.
    package var neverRead: [UnreadPart] = []

    package init(id: String, account: CampaignAccount = CampaignAccount()) { (self.id, self.account) = (id, account) }
  }

  /// In the order in which they are shown.
  package var apps: [App]
  package var seconds: Double
  /// The number that had their outcome before these seconds began.
  package var settledBefore = 0

  package init(apps: [App], seconds: Double, settledBefore: Int = 0) {
    (self.apps, self.seconds, self.settledBefore) = (apps, seconds, settledBefore)
  }

  /// Notifications that got their outcome, per second.
  package var perSecond: Double {
    seconds > 0 ? Double(max(0, apps.map(\.account.settled).reduce(0, +) - settledBefore)) / seconds : 0
  }

  /// The same, with what has no outcome yet as unknown, so that it adds up when no caller waits any
  /// longer; and how many these are.
  package var asIfOver: (account: AccountSnapshot, inFlightCount: Int) {
    var over = self
    for index in over.apps.indices { over.apps[index].account.unknown += apps[index].account.inFlight }
    return (over, apps.map(\.account.inFlight).reduce(0, +))
  }

  /// The reasons of a rejection as they are listed: statuses by number, then the others by name.
  package static func inOrder(_ reasons: [String: Int]) -> [(reason: String, count: Int)] {
    func rank(_ reason: String) -> (Int, String) {
      (reason.split(separator: " ").first.flatMap { Int($0) } ?? Int.max, reason)
    }
    return reasons.filter { $0.value > 0 }.map { ($0.key, $0.value) }.sorted { rank($0.0) < rank($1.0) }
  }
}

extension CampaignAccount {
  /// Lines that never became a notification.
  var rejectedAtIntake: Int { Rejection.atIntake.map { rejectedByReason[$0.description] ?? 0 }.reduce(0, +) }
}
