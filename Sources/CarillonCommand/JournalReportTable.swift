internal import Carillon
internal import PushEngine

/// What is in a journal, for people.
enum JournalReportTable {
  static func text(_ report: JournalReport, directory: String) -> String {
    var lines: [String] = []
    if report.campaigns.isEmpty {
      lines.append(report.isClosed ? "No campaign is in this journal: every campaign that it held has ended." : "No campaign has begun in this journal.")
    } else {
      let hasLost = report.campaigns.contains { $0.lost > 0 }
      let header = ["campaign", "app", "state", "submitted", "settled", "unsent", "unknown"] + (hasLost ? ["lost"] : []) + ["read up to line"]
      let rows = report.campaigns.map { state in
        [
          "\(state.campaign.number)", state.campaign.app, state.campaign.phase == .open ? "unfinished" : "ended", grouped(state.campaign.account.submitted),
          grouped(state.campaign.account.settled - state.lost), grouped(state.unsent), grouped(state.unknown),
        ] + (hasLost ? [grouped(state.lost)] : []) + [grouped(Int(clamping: state.campaign.readLine))]
      }
      lines += table([header] + rows, leftAligned: [0, 1, 2])
      lines.append("")
      if !report.unfinished.isEmpty || hasLost {
        lines.append("unsent: certainly not sent. unknown: may have arrived or not.\(hasLost ? " lost: damage has taken their records." : "")")
      }
      let command = "carillon send --resume --journal \(directory.asShellWord)"
      if report.unfinished.isEmpty {
        lines.append(report.isClosed ? "All have ended." : "All have ended; their account is given by: \(command)")
      } else {
        lines.append("Go on by: \(command)\(report.damage.isEmpty ? "" : " --skip-damaged")")
      }
    }
    lines.append("")
    lines += table(
      [["segment", "bytes", "records"]] + report.segments.map { [$0.name, grouped($0.byteCount), grouped($0.recordCount)] }, leftAligned: [0])
    lines.append("\(report.segments.count) segment\(report.segments.count == 1 ? "" : "s"), \(grouped(report.byteCount)) bytes")
    lines += findings(report)
    return lines.joined(separator: "\n")
  }

  static func verification(_ report: JournalReport) -> [String] {
    let summary = "\(report.segments.count) segment\(report.segments.count == 1 ? "" : "s"), \(grouped(report.recordCount)) sound records"
    guard report.damage.isEmpty else {
      return [summary] + findings(report) + [
        "\(report.damage.count) damaged place\(report.damage.count == 1 ? "" : "s"), \(grouped(report.lostByteCount)) bytes lost"
      ]
    }
    return [summary] + findings(report) + ["The journal is sound\(report.tornTail == nil ? "" : " up to its half-written end")."]
  }

  private static func findings(_ report: JournalReport) -> [String] {
    var lines = report.damage.map { "damaged: \($0)" }
    if report.strayCount > 0 { lines.append(report.strayNotice) }
    if let notice = report.tornTailNotice { lines.append(notice) }
    return lines
  }

  private static func grouped(_ number: Int) -> String { NumberText.grouped(number) }

  private static func table(_ rows: [[String]], leftAligned: Set<Int>) -> [String] {
    guard let first = rows.first else { return [] }
    let widths = first.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    return rows.map { row in
      let cells = row.indices.map { column in
        let padding = String(repeating: " ", count: widths[column] - row[column].count)
        return leftAligned.contains(column) ? row[column] + padding : padding + row[column]
      }
      return trimmed(cells.joined(separator: "  "))
    }
  }

  private static func trimmed(_ line: String) -> String {
    var line = line
    while line.last == " " { line.removeLast() }
    return line
  }
}

extension JournalReport {
  /// What a half-written end may mean. The journal cannot tell who has cut it: with what a process or a
  /// loss of power leaves half written, nothing is lost that anybody relied on.
  var tornTailNotice: String? {
    guard let tornTail else { return nil }
    let unsent = unfinished.map(\.unsent).reduce(0, +)
    let doubted = unsent > 0 ? "the \(NumberText.grouped(unsent)) notifications that count as unsent, and what was not taken in," : "what was not taken in"
    let doubt = unfinished.isEmpty ? "what it says may be older than what was sent" : "\(doubted) may have been sent"
    return "\(tornTail); they are cut off when it is opened. A kill or a loss of power loses nothing with them that was sent, "
      + "unless the journal was written with --sync never; if anything else has cut the file, \(doubt)"
  }

  var strayNotice: String {
    "\(NumberText.grouped(strayCount)) notifications without an outcome belong to campaigns whose own records are lost: they cannot be gone on with, and are in no account"
  }
}

/// The same for machines.
enum JournalReportJSON {
  static func text(_ report: JournalReport) -> String {
    var json = JSONWriter()
    json.object {
      $0.array("campaigns", report.campaigns) { state, json in
        json.field("number", state.campaign.number)
        json.field("app", state.campaign.app)
        json.field("finished", state.campaign.phase == .ended)
        json.field("submitted", state.campaign.account.submitted)
        json.field("accepted", state.campaign.account.accepted)
        json.field("rejected", state.campaign.account.rejectedTotal)
        json.field("settled", state.campaign.account.settled)
        json.field("unsent", state.unsent)
        json.field("unknown", state.unknown)
        json.field("unsettled", state.unsettled)
        json.field("lost", state.lost)
        json.field("line", state.campaign.readLine)
        json.field("payloadBytes", state.payloadByteCount)
      }
      $0.array("segments", report.segments) { segment, json in
        json.field("name", segment.name)
        json.field("bytes", segment.byteCount)
        json.field("records", segment.recordCount)
      }
      $0.field("bytes", report.byteCount)
      $0.field("records", report.recordCount)
      $0.field("stray", report.strayCount)
      $0.field("closed", report.isClosed)
      $0.field("tornTail", report.tornTail)
      $0.field("damage", report.damage)
    }
    return json.text
  }

  static func verification(_ report: JournalReport) -> String {
    var json = JSONWriter()
    json.object {
      $0.field("sound", report.damage.isEmpty)
      $0.field("segments", report.segments.count)
      $0.field("records", report.recordCount)
      $0.field("damage", report.damage)
      $0.field("lostBytes", report.lostByteCount)
      $0.field("lostRecords", report.lostRecordCount)
      $0.field("tornTail", report.tornTail)
    }
    return json.text
  }
}
