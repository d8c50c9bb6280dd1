internal import PushEngine
internal import PushWire

enum JournalReportJSON {
  static func text(_ report: JournalReport) -> String {
    return JSONWriter.text {
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
  }

  static func verification(_ report: JournalReport) -> String {
    return JSONWriter.text {
      $0.field("sound", report.damage.isEmpty)
      $0.field("segments", report.segments.count)
      $0.field("records", report.recordCount)
      $0.field("damage", report.damage)
      $0.field("lostBytes", report.lostByteCount)
      $0.field("lostRecords", report.lostRecordCount)
      $0.field("tornTail", report.tornTail)
    }
  }
}
