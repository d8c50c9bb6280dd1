internal import Carillon

/// What became of a campaign, as the command shows it: plain numbers per app.
struct AccountSnapshot: Hashable, Sendable {
  struct App: Hashable, Sendable {
    var id: String
    var submitted = 0
    var confirmed = 0
    var quiet = 0
    /// By reason, such as `8 invalid token` or `malformed token`.
    var rejected: [String: Int] = [:]
    var suppressed = 0
    var expired = 0
    var held = 0
    var cancelled = 0
    var unknown = 0
    var resent = 0
    var possibleDuplicates = 0
    var possibleCopies = 0
    /// Why the app stopped early, if it did; standard error says it beside the table.
    var failure: String?
    /// What kept the app from progress, one phrase each.
    var notes: [String] = []
    /// Token files that were not read to their end.
    var neverRead: [UnreadPart] = []

    init(id: String) { self.id = id }

    var accepted: Int { confirmed + quiet }
    var rejectedTotal: Int { rejected.values.reduce(0, +) }
    /// With an outcome.
    var settled: Int { accepted + rejectedTotal + suppressed + expired + held + cancelled + unknown }
  }

  /// In the order in which they are shown.
  var apps: [App]
  var seconds: Double
  /// So many had their outcome before these seconds began.
  var settledBefore = 0

  /// Notifications that got their outcome, per second.
  var perSecond: Double { seconds > 0 ? Double(max(0, apps.map(\.settled).reduce(0, +) - settledBefore)) / seconds : 0 }

  /// The same, with what has no outcome yet as unknown, so that it adds up although nobody waits any longer; and how many these are.
  var asIfOver: (account: AccountSnapshot, inFlightCount: Int) {
    var over = self
    for index in over.apps.indices { over.apps[index].unknown += over.apps[index].submitted - over.apps[index].settled }
    return (over, over.apps.map(\.unknown).reduce(0, +) - apps.map(\.unknown).reduce(0, +))
  }

  /// 0 when every notification was accepted, 1 otherwise.
  var exitStatus: ExitStatus { apps.allSatisfy { $0.accepted == $0.submitted } ? .success : .findings }

  /// Prints the account on standard output, or on standard error if that cannot be written. Returns
  /// why it could not, in a sentence: whoever reads standard output must not take nothing for success.
  func show(json: Bool) -> String? {
    let text = json ? AccountJSON.text(self) : AccountTable.text(self)
    guard let problem = StandardStream.output.writeText(text) else { return nil }
    StandardStream.error.writeLine(text)
    return "the account cannot be written to standard output: \(problem); it is on standard error"
  }

  /// The reasons of a rejection as they are listed: statuses by number, then the others by name.
  static func inOrder(_ reasons: [String: Int]) -> [(reason: String, count: Int)] {
    func rank(_ reason: String) -> (Int, String) { (reason.split(separator: " ").first.flatMap { Int($0) } ?? Int.max, reason) }
    return reasons.filter { $0.value > 0 }.map { ($0.key, $0.value) }.sorted { rank($0.0) < rank($1.0) }
  }
}

/// The account for machines, in the shape that SendYourFirstCampaign.md documents.
enum AccountJSON {
  static func text(_ account: AccountSnapshot) -> String {
    var json = JSONWriter()
    json.object {
      $0.object("apps") {
        for app in account.apps { $0.object(app.id) { write(app, to: &$0) } }
      }
      $0.field("seconds", account.seconds)
      $0.field("perSecond", account.perSecond)
    }
    return json.text
  }

  private static func write(_ app: AccountSnapshot.App, to json: inout JSONWriter) {
    json.field("submitted", app.submitted)
    json.object("accepted") {
      $0.field("confirmed", app.confirmed)
      $0.field("quiet", app.quiet)
    }
    json.object("rejected") {
      $0.field("total", app.rejectedTotal)
      $0.object("byReason") {
        for (reason, count) in AccountSnapshot.inOrder(app.rejected) { $0.field(reason, count) }
      }
    }
    json.field("suppressed", app.suppressed)
    json.field("expired", app.expired)
    json.field("held", app.held)
    json.field("cancelled", app.cancelled)
    json.field("unknown", app.unknown)
    json.field("resent", app.resent)
    json.field("possibleDuplicates", app.possibleDuplicates)
    json.field("possibleCopies", app.possibleCopies)
    json.field("notes", (app.failure.map { ["stopped: \($0)"] } ?? []) + app.notes)
    json.array("neverRead", app.neverRead) { part, json in part.write(to: &json) }
  }
}
