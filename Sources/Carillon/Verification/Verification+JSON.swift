extension Verification {
  /// The result for machines.
  package var json: String {
    var json = JSONWriter()
    json.object {
      $0.field("agrees", differenceCount == 0)
      $0.field("recordLines", lineCount)
      $0.field("listRows", rowCount)
      $0.array("apps", apps) { app, json in
        json.field("app", app.id)
        json.field("submitted", app.submitted)
        json.array("counts", app.counts) { count, json in
          json.field("count", count.title)
          json.field("account", count.account)
          if let list = count.list { json.field("list", list) }
          if let record = count.record { json.field("record", record) }
          json.field("agrees", count.isEqual)
        }
      }
      $0.field("differenceCount", differenceCount)
      $0.field("differences", differences)
    }
    return json.text
  }
}
