package import Carillon
internal import PushWire

/// The account for machines, in the shape that SendYourFirstCampaign.md documents.
package enum AccountJSON {
  package static func text(_ account: AccountSnapshot) -> String {
    return JSONWriter.text {
      $0.object("apps") {
        for app in account.apps { $0.object(app.id) { write(app, to: &$0) } }
      }
      $0.field("seconds", account.seconds)
      $0.field("perSecond", account.perSecond)
    }
  }

  package static func bytes(of account: CampaignAccount) -> [UInt8] {
    Array(JSONWriter.text { write(AccountSnapshot.App(id: "", account: account), to: &$0) }.utf8)
  }

  private static func write(_ app: AccountSnapshot.App, to json: inout JSONWriter) {
    let account = app.account
    json.field("submitted", account.submitted)
    json.object("accepted") {
      $0.field("confirmed", account.confirmed)
      $0.field("quiet", account.quiet)
    }
    json.object("rejected") {
      $0.field("total", account.rejected)
      $0.object("byReason") {
        for (reason, count) in AccountSnapshot.inOrder(account.rejectedByReason) { $0.field(reason, count) }
      }
    }
    json.field("suppressed", account.suppressed)
    json.field("capped", account.capped)
    json.field("holdout", account.holdout)
    json.field("expired", account.expired)
    json.field("held", account.held)
    json.field("cancelled", account.cancelled)
    json.field("unknown", account.unknown)
    json.field("resent", account.resent)
    json.field("possibleDuplicates", account.possibleDuplicates)
    json.field("possibleCopies", account.possibleCopies)
    json.field("notes", (app.failure.map { ["stopped: \($0)"] } ?? []) + app.notes)
    json.array("neverRead", app.neverRead) { part, json in part.write(to: &json) }
  }
}
