/// The account for people: one column per app, one row per outcome that occurred.
enum AccountTable {
  static func text(_ account: AccountSnapshot) -> String {
    var rows: [[String]] = [[""] + account.apps.map(\.id)]
    func add(_ title: String, always: Bool = false, _ value: (AccountSnapshot.App) -> Int) {
      let values = account.apps.map(value)
      if always || values.contains(where: { $0 != 0 }) { rows.append([title] + values.map(grouped)) }
    }
    add("submitted", always: true) { $0.submitted }
    add("accepted", always: true) { $0.accepted }
    add("  confirmed") { $0.confirmed }
    add("  quiet") { $0.quiet }
    add("rejected", always: true) { $0.rejectedTotal }
    var reasons: [String: Int] = [:]
    for app in account.apps { reasons.merge(app.rejected, uniquingKeysWith: +) }
    for (reason, _) in AccountSnapshot.inOrder(reasons) { add("  \(reason)") { $0.rejected[reason] ?? 0 } }
    add("suppressed") { $0.suppressed }
    add("expired") { $0.expired }
    add("held") { $0.held }
    add("cancelled") { $0.cancelled }
    add("unknown") { $0.unknown }
    add("still in flight") { $0.submitted - $0.settled }
    add("sent again") { $0.resent }
    add("possible duplicates") { $0.possibleDuplicates }
    // Mostly each of them was sent again once.
    if account.apps.contains(where: { $0.possibleCopies != $0.possibleDuplicates }) { add("possible copies") { $0.possibleCopies } }

    let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    var lines = rows.map { row in
      row.indices.map { column in
        let padding = String(repeating: " ", count: widths[column] - row[column].count)
        return column == 0 ? row[column] + padding : padding + row[column]
      }.joined(separator: "  ")
    }
    if account.seconds > 0 { lines += ["", "\(spokenSeconds(account.seconds)), \(grouped(Int(account.perSecond.rounded()))) notifications/s"] }
    let notes = account.apps.flatMap { app in (app.notes + app.neverRead.map(\.sentence)).map { "\(app.id): \($0)" } }
    if !notes.isEmpty { lines += [""] + notes }
    return lines.joined(separator: "\n")
  }

  /// 1234567 as 1,234,567.
  static func grouped(_ number: Int) -> String {
    var digits = String(number.magnitude)
    var groups: [String] = []
    while digits.count > 3 {
      groups.insert(String(digits.suffix(3)), at: 0)
      digits = String(digits.dropLast(3))
    }
    return (number < 0 ? "-" : "") + ([digits] + groups).joined(separator: ",")
  }

  /// 0.617 as 61.7 %.
  static func percent(_ share: Double) -> String { "\(decimal(share * 100, places: 1)) %" }

  /// 0.52 s, 12.3 s, 2 min 05 s, 1 h 02 min.
  static func spokenSeconds(_ seconds: Double) -> String {
    let whole = Int(max(0, min(seconds, 1e9)).rounded())
    if seconds < 9.995 { return "\(decimal(max(0, seconds), places: 2)) s" }
    if seconds < 59.95 { return "\(decimal(seconds, places: 1)) s" }
    if whole < 3600 { return "\(whole / 60) min \(twoDigits(whole % 60)) s" }
    return "\(whole / 3600) h \(twoDigits(whole % 3600 / 60)) min"
  }

  private static func twoDigits(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

  private static func decimal(_ number: Double, places: Int) -> String {
    let scale = places == 1 ? 10 : 100
    let scaled = Int((number * Double(scale)).rounded())
    let fraction = String(scaled % scale)
    return "\(scaled / scale)." + String(repeating: "0", count: places - fraction.count) + fraction
  }
}
