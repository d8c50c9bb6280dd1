internal import PushGateway
internal import PushWire
internal import Support

/// All that is known of an ended campaign: what the commands report and what its gateway recorded.
/// Compared line by line.
struct CampaignTruth {
  var audiences: [TestAudience]
  /// resend, hold or drop.
  var onUnknown: String
  var account: SentAccount
  /// The listed outcomes of notifications that were not accepted.
  var rows: [OutcomeRow]
  var frames: [RecordedFrames.Frame]
  /// False: the campaign was stopped. Only the beginning of each audience was taken in, and not all
  /// of that was sent.
  var isWhole = true

  /// What happened to one line of an audience.
  private struct Fate {
    var arrivals = 0
    var row: OutcomeRow?
  }

  /// The problems found, in sentences; the first few of each kind.
  func problems() -> [String] {
    var problems = Problems()
    var fates = audiences.map { Array(repeating: Fate(), count: $0.lines.count) }
    countArrivals(&fates, &problems)
    takeRows(&fates, &problems)
    for (audience, fates) in zip(audiences, fates) {
      for (line, fate) in zip(audience.lines, fates) {
        if !isWhole, fate.row == nil, fate.arrivals == 0 { continue }
        if let problem = self.problem(line, fate) {
          problems.add("\(audience.file): \(line.text.prefix(80)) (\(line.kind)) \(problem)", kind: problem)
        }
      }
    }
    for app in Set(audiences.map(\.app)).sorted() {
      guard let counts = account.apps[app] else {
        problems.add("the account has no entry for \(app)")
        continue
      }
      check(counts, of: app, fates.indices.filter { audiences[$0].app == app }.flatMap { fates[$0] }, &problems)
    }
    return problems.sentences
  }

  /// The number of notifications that arrived more than once.
  var duplicateCount: Int {
    var counts: [TokenBytes: Int] = [:]
    for frame in frames where frame.refusal == nil {
      if let token = frame.token { counts[token, default: 0] += 1 }
    }
    return counts.values.count { $0 > 1 }
  }

  private func countArrivals(_ fates: inout [[Fate]], _ problems: inout Problems) {
    var places: [TokenBytes: (audience: Int, line: Int)] = [:]
    for (index, audience) in audiences.enumerated() {
      for (number, line) in audience.lines.enumerated() {
        if let token = line.token { places[token] = (index, number) }
      }
    }
    for frame in frames where frame.refusal == nil {
      guard let token = frame.token, let place = places[token] else {
        problems.add("an unknown token arrived")
        continue
      }
      fates[place.audience][place.line].arrivals += 1
      let audience = audiences[place.audience]
      if frame.topic != audience.topic {
        problems.add("a notification of \(audience.app) arrived through \(frame.topic)")
      }
      if frame.payload != audience.payload(place.line) {
        problems.add(
          "line \(place.line + audience.firstLine) of \(audience.file) arrived with the payload of another line")
      }
    }
  }

  private func takeRows(_ fates: inout [[Fate]], _ problems: inout Problems) {
    for row in rows {
      let index = audiences.firstIndex { audience in
        row.tokens.map { $0.hasSuffix(audience.file) && row.app == audience.app } ?? (audiences.count == 1)
      }
      guard let index, audiences[index].lines.indices.contains(row.line - audiences[index].firstLine) else {
        problems.add("a row without a line: \(row)")
        continue
      }
      let line = row.line - audiences[index].firstLine
      if fates[index][line].row != nil {
        problems.add("line \(row.line) of \(audiences[index].file) is listed twice", kind: "listed twice")
      }
      if row.token != audiences[index].lines[line].text {
        problems.add("line \(row.line) is listed with another token", kind: "another token")
      }
      fates[index][line].row = row
    }
  }

  private func problem(_ line: TestAudience.Line, _ fate: Fate) -> String? {
    guard let row = fate.row else {
      guard line.kind == .good else { return "counts as accepted" }
      return fate.arrivals > 0 ? nil : "is lost: it counts as accepted but did not arrive"
    }
    if !isWhole, row.outcome == "unknown" { return nil }
    if !isWhole, row.outcome == "cancelled" { return fate.arrivals == 0 ? nil : "counts as cancelled but arrived" }
    switch (row.outcome, row.reason) {
    case ("rejected", "8 invalid token"): return line.kind == .refused ? nil : "counts as refused"
    case ("rejected", "malformed token"): return line.kind == .malformed ? nil : "counts as malformed"
    case ("rejected", "payload too large"): return line.kind == .tooLarge ? nil : "counts as too large"
    case ("held", "") where onUnknown == "hold", ("unknown", "") where onUnknown == "drop":
      return line.kind == .good || line.kind == .refused ? nil : "counts as \(row.outcome)"
    default: return "ended as \(row.outcome) \(row.reason)"
    }
  }

  private func check(_ counts: SentAccount.App, of app: String, _ fates: [Fate], _ problems: inout Problems) {
    func expect(_ what: String, _ counted: Int, _ known: Int) {
      if counted != known { problems.add("\(app): \(counted) \(what) by the account, \(known) by the lines") }
    }
    func rows(_ outcome: String) -> Int { fates.count { $0.row?.outcome == outcome } }
    let untouched = isWhole ? 0 : fates.count { $0.row == nil && $0.arrivals == 0 }
    expect("submitted", counts.submitted, fates.count - untouched)
    expect("outcomes", counts.sum, fates.count - untouched)
    expect("accepted", counts.acceptedTotal, fates.count { $0.row == nil } - untouched)
    expect("cancelled", counts.cancelled, rows("cancelled"))
    expect("rejected", counts.rejected.total, rows("rejected"))
    for (reason, count) in counts.rejected.byReason { expect(reason, count, fates.count { $0.row?.reason == reason }) }
    expect("held", counts.held, rows("held"))
    expect("unknown", counts.unknown, rows("unknown"))
    let duplicates = fates.count { $0.arrivals > 1 }
    if duplicates > counts.possibleDuplicates {
      problems.add("\(app): \(duplicates) arrived twice, the account allows \(counts.possibleDuplicates)")
    }
    let copies = fates.map { max(0, $0.arrivals - 1) }.reduce(0, +)
    if copies > counts.possibleCopies {
      problems.add("\(app): \(copies) copies arrived, the account allows \(counts.possibleCopies)")
    }
    if onUnknown != "resend", counts.possibleDuplicates > 0 {
      problems.add("\(app): resent in spite of on-unknown: \(onUnknown)")
    }
  }

  private struct Problems {
    private(set) var sentences: [String] = []
    private var counts: [String: Int] = [:]

    mutating func add(_ sentence: String, kind: String? = nil) {
      counts[kind ?? sentence, default: 0] += 1
      if counts[kind ?? sentence, default: 0] <= 3 { sentences.append(sentence) }
    }
  }
}
