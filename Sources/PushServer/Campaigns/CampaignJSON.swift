internal import Carillon
internal import PushStore
internal import PushWire

extension CampaignReport {
  /// The campaign as the interface shows it.
  var json: String {
    var members: [JSONMember] = [
      JSONMember("id", .string(record.id.text)),
      JSONMember("app", .string(record.app)),
      JSONMember("state", .string(record.state)),
    ]
    if !record.reason.isEmpty { members.append(JSONMember("reason", .string(record.reason))) }
    members += plan.members
    if plan.source == .upload {
      members.append(
        JSONMember(
          "upload",
          .object([
            JSONMember("lines", .number(String(record.upload.lineCount))),
            JSONMember("complete", .bool(record.upload.isComplete)),
          ])))
    }
    members.append(JSONMember("createdAt", .string(InstantText.text(record.createdAt))))
    if let instant = record.startedAt { members.append(JSONMember("startedAt", .string(InstantText.text(instant)))) }
    if let instant = record.endedAt { members.append(JSONMember("endedAt", .string(InstantText.text(instant)))) }
    if let instant = nextPartAt { members.append(JSONMember("nextPartAt", .string(InstantText.text(instant)))) }
    members.append(JSONMember("progress", .object(progress)))
    return String(decoding: JSONValue.object(members).encoded, as: UTF8.self)
  }

  /// The numbers that change while it sends.
  var progress: [JSONMember] {
    var members = [
      JSONMember("submitted", .integer(account.submitted)),
      JSONMember("accepted", .integer(account.accepted)),
      JSONMember("rejected", .integer(account.rejected)),
      JSONMember("others", .integer(account.others)),
      JSONMember("inFlight", .integer(account.inFlight)),
    ]
    if let fraction { members.append(JSONMember("fractionRead", .double((fraction * 10_000).rounded() / 10_000))) }
    return members
  }
}
