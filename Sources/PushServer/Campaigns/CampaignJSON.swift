internal import Carillon
internal import PushService
internal import PushStore
internal import PushWire

extension CampaignReport {
  /// The campaign as the interface shows it. The plan is JSON as it is stored: it is not parsed.
  func json(plan: [UInt8]) -> [UInt8] {
    var members = [
      JSONMember("id", .string(record.id.text)),
      JSONMember("app", .string(record.app)),
      JSONMember("state", .string(record.state)),
    ]
    if !record.reason.isEmpty { members.append(JSONMember("reason", .string(record.reason))) }
    if let waitsFor { members.append(JSONMember("waitsFor", .string(waitsFor))) }
    var rest: [JSONMember] = []
    if !record.summary.isForDevices {
      rest.append(
        JSONMember(
          "upload",
          .object([
            JSONMember("lines", .number(String(record.upload.lineCount))),
            JSONMember("complete", .bool(record.upload.isComplete)),
          ])))
    }
    func add(_ name: String, _ instant: StoreInstant?) {
      if let instant { rest.append(JSONMember(name, .string(InstantText.text(instant)))) }
    }
    add("createdAt", record.createdAt)
    add("startedAt", record.startedAt)
    add("endedAt", record.endedAt)
    add("nextPartAt", nextPartAt)
    if record.summary.lastBeginsAt != nil {
      add("firstStartAt", beginning?.lowerBound)
      add("lastStartAt", beginning?.upperBound)
    }
    rest.append(JSONMember("progress", .object(progress)))
    var bytes = Array(JSONValue.object(members).encoded.dropLast())
    // Without its braces. A plan has members: its name is among them.
    if plan.count > 2 { bytes += [UInt8(ascii: ",")] + plan.dropFirst().dropLast() }
    bytes += [UInt8(ascii: ",")] + JSONValue.object(rest).encoded.dropFirst()
    return bytes
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
    if let total { members.append(JSONMember("total", .integer(total))) }
    if let share { members.append(JSONMember("fractionDone", .double(Self.rounded(share)))) }
    if let fraction { members.append(JSONMember("fractionRead", .double(Self.rounded(fraction)))) }
    if let secondsLeft { members.append(JSONMember("secondsLeft", .integer(Int(secondsLeft.rounded(.up))))) }
    return members
  }

  private static func rounded(_ share: Double) -> Double { (share * 10_000).rounded() / 10_000 }
}
