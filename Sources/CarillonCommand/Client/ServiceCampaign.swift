internal import Carillon
internal import PushServer
internal import PushWire

/// A campaign of a running service, as the command shows it.
struct ServiceCampaign: Decodable, Sendable {
  struct Progress: Decodable, Sendable {
    var submitted: Int
    var accepted: Int
    var rejected: Int
    var others: Int
    var inFlight: Int
    var total: Int?
    var fractionDone: Double?
    var fractionRead: Double?
    var secondsLeft: Int?

    /// How far it is and what the rest takes, such as `12 % of 89,909, 4 min left`; nil: unknown.
    var text: String? {
      guard let fractionDone else { return nil }
      return NumberText.percent(fractionDone) + (total.map { " of \(NumberText.grouped($0))" } ?? "")
        + (secondsLeft.map { ", \(NumberText.age(.seconds($0))) left" } ?? "")
    }
  }

  struct List: Decodable, Sendable {
    var items: [ServiceCampaign]
    var nextCursor: String?
  }

  struct Upload: Decodable, Sendable {
    var lines: Int
    var complete: Bool
  }

  var id: String
  var name: String?
  var state: String
  var reason: String?
  var createdAt: String?
  var sendAt: String?
  /// Of a local send.
  var firstStartAt: String?
  var lastStartAt: String?
  var progress: Progress?
  var upload: Upload?

  /// Its name, or its id.
  var title: String { name.map(\.cited) ?? id }

  /// Its state and how far it is, as the rest of a sentence.
  var standing: String {
    let accepted = progress?.accepted ?? 0
    let counts = accepted > 0 ? ", with \(NumberText.grouped(accepted)) accepted" : ""
    let time = state == "scheduled" ? sendAt.map { " for \($0)" } ?? "" : ""
    return "its state is \(state)\(time)\(counts)\(reason.map { ": \($0)" } ?? "").".asSentence
  }

  /// For a terminal: names and reasons have lines of their own.
  static func lines(_ campaigns: [ServiceCampaign], columns: Int) -> [String] {
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
  static func table(_ campaigns: [ServiceCampaign]) -> [String] {
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

extension ServiceEvent {
  /// The campaign that the event is about; nil for other events.
  var campaign: ServiceCampaign? {
    try? ServiceReply(status: 200, headers: [:], body: Array(data.utf8)).decoded(ServiceCampaign.self)
  }
}
