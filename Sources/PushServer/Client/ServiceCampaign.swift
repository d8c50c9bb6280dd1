internal import Carillon
internal import PushWire

/// A campaign of a running service, as the command shows it.
package struct ServiceCampaign: Decodable, Sendable {
  package struct Progress: Decodable, Sendable {
    package var submitted: Int
    package var accepted: Int
    package var rejected: Int
    package var others: Int
    package var inFlight: Int
    package var total: Int?
    package var fractionDone: Double?
    package var fractionRead: Double?
    package var secondsLeft: Int?

    /// How much is done and how long the rest takes, such as `12 % of 89,909, 4 min left`; nil: not
    /// known.
    package var text: String? {
      guard let fractionDone else { return nil }
      return NumberText.percent(fractionDone) + (total.map { " of \(NumberText.grouped($0))" } ?? "")
        + (secondsLeft.map { ", \(AgeText.text(.seconds($0))) left" } ?? "")
    }
  }

  package struct List: Decodable, Sendable {
    package var items: [ServiceCampaign]
    package var nextCursor: String?
  }

  package struct Upload: Decodable, Sendable {
    package var lines: Int
    package var complete: Bool
  }

  package var id: String
  package var name: String?
  package var state: String
  package var reason: String?
  package var createdAt: String?
  package var sendAt: String?
  /// Of a local send.
  package var firstStartAt: String?
  package var lastStartAt: String?
  package var progress: Progress?
  package var upload: Upload?

  /// Its name, or its id.
  package var title: String { name.map(\.cited) ?? id }

  /// Its state and how far it is, as the rest of a sentence.
  package var standing: String {
    let accepted = progress?.accepted ?? 0
    let counts = accepted > 0 ? ", with \(NumberText.grouped(accepted)) accepted" : ""
    let time = state == "scheduled" ? sendAt.map { " for \($0)" } ?? "" : ""
    return "its state is \(state)\(time)\(counts)\(reason.map { ": \($0)" } ?? "").".asSentence
  }

  /// For a terminal: names and reasons have lines of their own.
  package static func lines(_ campaigns: [ServiceCampaign], columns: Int) -> [String] {
    let rows = campaigns.map { campaign in
      let progress = campaign.progress
      return [campaign.id, campaign.state, progress?.text ?? "-"]
        + [progress?.submitted, progress?.accepted, progress.map { $0.rejected + $0.others }]
        .map { $0.map(NumberText.grouped) ?? "-" }
    }
    let table = TextTable.lines(
      [["id", "state", "done", "submitted", "accepted", "others"]] + rows, leftAligned: [0, 1, 2])
    return [table[0]]
      + zip(campaigns, table.dropFirst()).flatMap { campaign, line in
        [line]
          + [campaign.name, campaign.starts, campaign.reason?.asSentence].compactMap { $0 }
          .flatMap { TextTable.wrapped($0, indent: 2, columns: columns) }
      }
  }

  /// When a local send begins; nil: it is none.
  private var starts: String? {
    guard let firstStartAt, let lastStartAt else { return nil }
    return "Starts from \(firstStartAt) to \(lastStartAt), by time zone."
  }

  /// A table with a line of titles.
  package static func table(_ campaigns: [ServiceCampaign]) -> [String] {
    let rows = campaigns.map { campaign in
      let progress = campaign.progress
      return [
        campaign.id, campaign.name ?? "", campaign.state, progress?.text ?? "-",
        progress.map { NumberText.grouped($0.submitted) } ?? "-",
        progress.map { NumberText.grouped($0.accepted) } ?? "-",
        progress.map { NumberText.grouped($0.rejected + $0.others) } ?? "-", campaign.reason ?? "",
      ]
    }
    let head = ["id", "name", "state", "done", "submitted", "accepted", "not accepted", "reason"]
    return TextTable.lines([head] + rows, leftAligned: [0, 1, 2, 3, 7])
  }
}

/// What a campaign of a running service is to do, for the request that makes it.
package struct ServiceCampaignRequest: Sendable {
  private var members: [JSONMember] = []

  /// - Parameter payload: JSON.
  /// - Throws: ``ServiceFailure`` if the payload is no JSON.
  package init(name: String, payload: [UInt8], file: String) throws(ServiceFailure) {
    members = [
      JSONMember("name", .string(name)), JSONMember("payload", try Self.json(payload, file)),
    ]
  }

  private static func json(_ bytes: [UInt8], _ file: String) throws(ServiceFailure) -> JSONValue {
    do throws(JSONError) { return try JSONValue(parsing: bytes[...]) } catch {
      throw ServiceFailure("\(file) is not JSON: \(error.description(in: bytes)).")
    }
  }

  /// Payloads by language: JSON, and the file that it came from.
  package mutating func set(variants: [(language: String, payload: [UInt8], file: String)]) throws(ServiceFailure) {
    guard !variants.isEmpty else { return }
    var found: [JSONMember] = []
    for variant in variants {
      found.append(JSONMember(variant.language, try Self.json(variant.payload, variant.file)))
    }
    members.append(JSONMember("variants", .object(found)))
  }

  /// Stored devices as the audience.
  package mutating func setDevices(all: [String], any: [String], none: [String], languages: [String]) {
    func words(_ name: String, _ words: [String]) -> [JSONMember] {
      words.isEmpty ? [] : [JSONMember(name, .array(words.map { .string($0) }))]
    }
    let filter = words("all", all) + words("any", any) + words("none", none) + words("languages", languages)
    members.append(
      JSONMember(
        "audience", .object([JSONMember("source", .string("devices")), JSONMember("filter", .object(filter))])))
  }

  package mutating func set(_ name: String, _ text: String?) {
    if let text { members.append(JSONMember(name, .string(text))) }
  }

  package mutating func set(_ name: String, _ number: Int?) {
    if let number { members.append(JSONMember(name, .integer(number))) }
  }

  package mutating func set(_ name: String, _ flag: Bool) { if flag { members.append(JSONMember(name, .bool(true))) } }

  /// The same wall-clock time everywhere.
  package mutating func setLocalSend(time: String, missingTimeZone: String?, past: String?) {
    var parts = [JSONMember("time", .string(time))]
    if let missingTimeZone { parts.append(JSONMember("missingTimeZone", .string(missingTimeZone))) }
    if let past { parts.append(JSONMember("past", .string(past))) }
    members.append(JSONMember("localSend", .object(parts)))
  }

  package var json: String { String(decoding: JSONValue.object(members).encoded, as: UTF8.self) }
}

extension ServiceEvent {
  /// The campaign that the event is about; nil for other events.
  package var campaign: ServiceCampaign? {
    try? ServiceReply(status: 200, headers: [:], body: Array(data.utf8)).decoded(ServiceCampaign.self)
  }
}
