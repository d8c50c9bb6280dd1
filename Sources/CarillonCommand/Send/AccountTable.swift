internal import Carillon
internal import PushSend
internal import PushWire

/// The account for people: one column per app, one row per outcome that occurred.
enum AccountTable {
  static func text(_ account: AccountSnapshot) -> String {
    var rows: [[String]] = [[""] + account.apps.map(\.id)]
    func add(_ title: String, always: Bool = false, _ value: (CampaignAccount) -> Int) {
      let values = account.apps.map { value($0.account) }
      if always || values.contains(where: { $0 != 0 }) { rows.append([title] + values.map(NumberText.grouped)) }
    }
    add("submitted", always: true) { $0.submitted }
    add("accepted", always: true) { $0.accepted }
    add("  confirmed") { $0.confirmed }
    add("  quiet") { $0.quiet }
    add("rejected", always: true) { $0.rejected }
    var reasons: [String: Int] = [:]
    for app in account.apps { reasons.merge(app.account.rejectedByReason, uniquingKeysWith: +) }
    for (reason, _) in AccountSnapshot.inOrder(reasons) { add("  \(reason)") { $0.rejectedByReason[reason] ?? 0 } }
    add("suppressed") { $0.suppressed }
    add("capped") { $0.capped }
    add("holdout") { $0.holdout }
    add("expired") { $0.expired }
    add("held") { $0.held }
    add("cancelled") { $0.cancelled }
    add("unknown") { $0.unknown }
    add("still in flight") { $0.inFlight }
    add("sent again") { $0.resent }
    add("possible duplicates") { $0.possibleDuplicates }
    // The numbers are the same when each of them was sent again once.
    if account.apps.contains(where: { $0.account.possibleCopies != $0.account.possibleDuplicates }) {
      add("possible copies") { $0.possibleCopies }
    }

    var lines = TextTable.lines(rows, leftAligned: [0])
    if account.seconds > 0 {
      lines += [
        "",
        "\(NumberText.seconds(account.seconds)), \(NumberText.grouped(Int(account.perSecond.rounded()))) "
          + "notifications/s",
      ]
    }
    let notes = account.apps.flatMap { app in (app.notes + app.neverRead.map(\.sentence)).map { "\(app.id): \($0)" } }
    if !notes.isEmpty { lines += [""] + notes }
    return lines.joined(separator: "\n")
  }
}

extension AccountSnapshot {
  /// 0 when every notification was accepted, 1 otherwise.
  var exitStatus: ExitStatus { apps.allSatisfy { $0.account.accepted == $0.account.submitted } ? .success : .findings }

  /// Prints the account on standard output, or on standard error if that fails. Returns the reason
  /// for the failure, in a sentence: a reader of standard output must not take an empty output for
  /// success.
  func show(json: Bool) -> String? {
    let text = json ? AccountJSON.text(self) : AccountTable.text(self)
    guard let problem = StandardStream.output.writeText(text) else { return nil }
    StandardStream.error.writeLine(text)
    return "the account cannot be written to standard output: \(problem); it is on standard error instead"
  }
}
