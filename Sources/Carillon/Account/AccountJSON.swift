/// The account for machines, in the shape that SendYourFirstCampaign.md documents.
package enum AccountJSON {
  package static func text(_ account: AccountSnapshot) -> String {
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
