internal import Carillon
internal import PushEngine
internal import PushSend
internal import PushWire

enum JournalReportTable {
  /// - Parameter resumeCommand: resumes the campaigns, or prints their account if they have ended.
  static func text(_ report: JournalReport, resumeCommand: String) -> String {
    var lines: [String] = []
    if report.campaigns.isEmpty {
      lines.append(
        report.isClosed
          ? "No campaign is in this journal: every campaign that it held has ended."
          : "No campaign has begun in this journal.")
    } else {
      let hasLost = report.campaigns.contains { $0.lost > 0 }
      let header =
        ["campaign", "app", "state", "submitted", "settled", "unsent", "unknown"] + (hasLost ? ["lost"] : []) + [
          "read up to line"
        ]
      let rows = report.campaigns.map { state in
        [
          "\(state.campaign.number)", state.campaign.app, state.campaign.phase == .open ? "unfinished" : "ended",
          grouped(state.campaign.account.submitted), grouped(state.campaign.account.settled - state.lost),
          grouped(state.unsent), grouped(state.unknown),
        ] + (hasLost ? [grouped(state.lost)] : []) + [grouped(Int(clamping: state.campaign.readLine))]
      }
      lines += TextTable.lines([header] + rows, leftAligned: [0, 1, 2])
      lines.append("")
      if !report.unfinished.isEmpty || hasLost {
        lines.append(
          "unsent: certainly not sent. unknown: may have arrived or "
            + "not.\(hasLost ? " lost: damage has taken their records." : "")")
      }
      if report.isService {
        lines.append(
          report.unfinished.isEmpty
            ? "All have ended." : "They are a service's: carillon serve resumes them when it starts.")
      } else if report.unfinished.isEmpty {
        lines.append(report.isClosed ? "All have ended." : "All have ended. Print their account with: \(resumeCommand)")
      } else {
        lines.append("Resume with: \(resumeCommand)")
      }
    }
    lines.append("")
    lines += TextTable.lines(
      [["segment", "bytes", "records"]]
        + report.segments.map { [$0.name, grouped($0.byteCount), grouped($0.recordCount)] }, leftAligned: [0])
    lines.append(
      "\(report.segments.count) segment\(report.segments.count == 1 ? "" : "s"), \(grouped(report.byteCount)) bytes")
    lines += findings(report)
    return lines.joined(separator: "\n")
  }

  static func verification(_ report: JournalReport) -> [String] {
    let summary =
      "\(report.segments.count) segment\(report.segments.count == 1 ? "" : "s"), "
      + "\(grouped(report.recordCount)) sound records"
    guard report.damage.isEmpty else {
      return [summary] + findings(report) + [
        "\(report.damage.count) damaged place\(report.damage.count == 1 ? "" : "s"), "
          + "\(grouped(report.lostByteCount)) bytes lost"
      ]
    }
    return [summary] + findings(report) + [
      "The journal is sound\(report.tornTail == nil ? "" : " up to its half-written end")."
    ]
  }

  private static func findings(_ report: JournalReport) -> [String] {
    var lines = report.damage.map { "damaged: \($0)" }
    if report.strayCount > 0 { lines.append(report.strayNotice) }
    if let notice = report.tornTailNotice { lines.append(notice) }
    return lines
  }

  private static func grouped(_ number: Int) -> String { NumberText.grouped(number) }
}

extension JournalReport {
  /// Something in it belongs to `carillon serve`.
  fileprivate var isService: Bool {
    campaigns.contains { state in
      let note = CampaignContext(reading: state.campaign.context)
      return note.served != nil || note.intakeRun != nil
    }
  }
}
