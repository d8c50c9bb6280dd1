internal import Carillon
internal import Foundation
internal import PushSend
internal import PushWire

/// Compares an account and its list of outcomes with the record of the simulator.
///
/// What is compared: each refused line of the record with its row of the list, each row of the list
/// with the lines of its token, the counts of the account with the rows and lines, and the sum of
/// the account's outcomes with what was submitted. The record must hold nothing else.
struct Verification: Sendable {
  /// One count, from up to three sources; nil: the source does not know it.
  struct Count: Hashable, Sendable {
    var title: String
    var account: Int
    var list: Int?
    var record: Int?
    var isEqual: Bool
  }

  /// An app, with the counts in the order in which they are shown.
  struct AppCounts: Sendable {
    var id: String
    /// By the account, whose outcomes add up to it where nothing differs.
    var submitted: Int
    var counts: [Count]
  }

  private(set) var apps: [AppCounts] = []
  /// Rows of the list, and lines of the record, that were compared one by one.
  private(set) var rowCount = 0
  private(set) var lineCount = 0
  /// All differences.
  private(set) var differenceCount = 0
  /// Sentences about the first of them.
  private(set) var differences: [String] = []

  static let describedLimit = 20

  /// Reads the three files and compares them.
  ///
  /// - Parameters:
  ///   - account: the JSON object of `carillon send --json`.
  ///   - outcomes: the list of `carillon send --outcomes`.
  ///   - record: of `carillon simulate --record`.
  ///   - topics: which topic of the record an app of the account is, by the app's id; what is not
  ///     there is found by its name.
  init(account: String, outcomes: String, record: String, topics: [String: String] = [:]) throws(CarillonError) {
    let bytes = try describingErrors { try TextFile.read(account) }
    guard let accounts = AccountJSON.file(reading: bytes)?.apps.mapValues(\.account) else {
      throw CarillonError(.configuration, "\(account) is not an account in JSON")
    }
    let list = try VerifiedList(file: outcomes, ids: Array(accounts.keys))
    let record = try GatewayRecord(file: record)
    try self.init(accounts, list, record, topics: topics)
  }

  init(
    _ accounts: [String: CampaignAccount], _ list: VerifiedList, _ record: GatewayRecord, topics: [String: String]
  ) throws(CarillonError) {
    lineCount = record.lineCount
    rowCount = list.rowCount
    for line in list.repeated { add("line \(line.line) of \(line.app) is listed twice") }
    var seen: Set<String> = []
    for (id, account) in accounts.sorted(by: { $0.key < $1.key }) {
      let topic = try Self.topic(of: id, topics: topics, record: record, isOnly: accounts.count == 1)
      if let topic { seen.insert(topic) }
      compare(id, account, list.rows[id] ?? [], topic.flatMap { record.apps[$0] } ?? GatewayRecord.App())
    }
    for topic in record.apps.keys.sorted() where !seen.contains(topic) {
      add("the record has \(record.apps[topic]?.lineCount ?? 0) lines of \(topic), and the account does not name it")
    }
  }

  /// The topic of an app; nil if nothing of it arrived.
  private static func topic(
    of id: String, topics: [String: String], record: GatewayRecord, isOnly: Bool
  ) throws(CarillonError) -> String? {
    if let topic = topics[id] { return topic }
    if record.apps[id] != nil || record.apps.isEmpty { return id }
    let alike = record.apps.keys.filter { $0.hasSuffix(".\(id)") }
    if alike.count == 1 { return alike.first }
    if isOnly, record.apps.count == 1 { return record.apps.keys.first }
    if alike.isEmpty { return nil }
    throw CarillonError(
      .configuration,
      "\(alike.sorted().joined(separator: " and ")) of the record may both be the app \(id): name its topic, as in "
        + "\(id)=\(alike.sorted().first ?? "")")
  }

  // MARK: One app

  /// What the lines of the record and the rows of the list say together.
  private struct Matches {
    /// Tokens and identifiers that were accepted, and how often in all.
    var distinct = 0
    var lines = 0
    var refusedCounts: [String: Int] = [:]
  }

  private mutating func compare(
    _ id: String, _ account: CampaignAccount, _ rows: [VerifiedList.Row], _ record: GatewayRecord.App
  ) {
    let matches = match(id, account, rows, record)
    if record.namelessCount > 0 { add("\(id): \(record.namelessCount) lines of the record name no token") }
    var counts = Self.acceptedCounts(account, matches, record)
    let reasons = Set(account.rejectedByReason.keys).union(rows.filter(\.isRejected).map(\.reason))
    for reason in reasons.union(matches.refusedCounts.keys).sorted() {
      let ofReason = rows.filter { $0.isRejected && $0.reason == reason }
      let refusedCount = matches.refusedCounts[reason]
      let isRecorded = refusedCount != nil || ofReason.contains { $0.isOfGateway && !$0.mayBeUnrecorded }
      counts.append(
        Self.count(
          "rejected: \(reason)", account.rejectedByReason[reason] ?? 0, ofReason.count,
          isRecorded ? refusedCount ?? 0 : nil))
    }
    for (kind, count) in account.withoutReason {
      let outcome = kind.rawValue
      let listedCount = rows.count { $0.outcome == outcome }
      if count > 0 || listedCount > 0 { counts.append(Self.count(outcome, count, listedCount, nil)) }
    }
    for count in counts where !count.isEqual {
      let others = [count.list.map { "\($0) in the list" }, count.record.map { "\($0) in the record" }]
      add("\(id), \(count.title): \(count.account) in the account, \(others.compactMap { $0 }.joined(separator: ", "))")
    }
    if account.submitted != account.settled {
      add("\(id): \(account.submitted) were submitted by the account, and its outcomes are \(account.settled) together")
    }
    apps.append(AppCounts(id: id, submitted: account.submitted, counts: counts))
  }

  /// Compares each row of the list, and each refusal of the record.
  private mutating func match(
    _ id: String, _ account: CampaignAccount, _ rows: [VerifiedList.Row], _ record: GatewayRecord.App
  ) -> Matches {
    var matches = Matches()
    var listed: [GatewayRecord.Key: VerifiedList.Row] = [:]
    for row in rows {
      let fate = row.key.flatMap { record.fates[$0] }
      if let key = row.key { listed[key] = row }
      compare(id, row, fate)
      if row.isRejected, let fate, fate.acceptedCount == 0, row.agrees(fate) {
        matches.refusedCounts[row.reason, default: 0] += 1
      }
    }
    for (key, fate) in record.fates where listed[key] == nil {
      if fate.acceptedCount > 0 {
        matches.distinct += 1
        matches.lines += fate.acceptedCount
      } else if let refusal = fate.refusal {
        add("\(id): \(key.text) was refused with \(refusal), and is not listed")
        let reason = account.rejectedByReason.keys.first { VerifiedList.isSame($0, refusal) } ?? refusal
        matches.refusedCounts[reason, default: 0] += 1
      }
    }
    // Over HTTP/2 each line of the token file has an identifier, also where a token is repeated.
    if record.isHTTP2 { matches.distinct = max(matches.distinct, record.identifiers.count - doubtful(listed, record)) }
    return matches
  }

  private static func acceptedCounts(
    _ account: CampaignAccount, _ matches: Matches, _ record: GatewayRecord.App
  ) -> [Count] {
    let (accepted, distinct, lines) = (account.accepted, matches.distinct, matches.lines)
    // Over the binary protocol, a repeated token and a resend look the same.
    let hasRepeats = !record.isHTTP2 && distinct < accepted && accepted <= lines
    let isAccepted = accepted == distinct || hasRepeats
    var counts = [
      Count(
        title: "accepted", account: accepted, list: nil, record: hasRepeats ? accepted : distinct, isEqual: isAccepted)
    ]
    let copies = lines - (isAccepted ? accepted : distinct)
    if copies != 0 || account.possibleCopies != 0 {
      counts.append(
        Count(
          title: "arrived again, at most", account: account.possibleCopies, list: nil, record: copies,
          isEqual: copies <= account.possibleCopies))
    }
    return counts
  }

  private static func count(_ title: String, _ account: Int, _ list: Int, _ record: Int?) -> Count {
    Count(
      title: title, account: account, list: list, record: record, isEqual: account == list && record ?? list == list)
  }

  /// One row with what the record knows of its token.
  private mutating func compare(_ id: String, _ row: VerifiedList.Row, _ fate: GatewayRecord.Fate?) {
    let place = "\(id), line \(row.line): is listed as \(row.text)"
    if row.mayHaveArrived { return }
    if let fate, fate.acceptedCount > 0 { return add("\(place), but was accepted") }
    guard row.isOfGateway else { return }
    if row.key == nil { return add("\(place), but holds no token that could arrive") }
    guard let refusal = fate?.refusal else {
      if !row.mayBeUnrecorded { add("\(place), but the record has no refusal of it") }
      return
    }
    if !row.agrees(fate ?? GatewayRecord.Fate()) { add("\(place), but was refused with \(refusal)") }
  }

  /// Accepted lines of tokens whose row says that they may have arrived.
  private func doubtful(_ listed: [GatewayRecord.Key: VerifiedList.Row], _ record: GatewayRecord.App) -> Int {
    listed.filter { $0.value.mayHaveArrived }.reduce(0) { $0 + (record.fates[$1.key]?.acceptedCount ?? 0) }
  }

  private mutating func add(_ difference: String) {
    differenceCount += 1
    if differences.count < Self.describedLimit { differences.append(difference) }
  }
}

extension GatewayRecord.Key {
  fileprivate var text: String {
    switch self {
    case .device(let token): "\(token)"
    case .channel(let channel): channel
    }
  }
}

extension CampaignAccount {
  /// The outcomes that have no reason.
  fileprivate var withoutReason: [(outcome: Outcome.Kind, count: Int)] {
    [
      (.suppressed, suppressed), (.capped, capped), (.holdout, holdout), (.expired, expired), (.held, held),
      (.cancelled, cancelled), (.unknown, unknown),
    ]
  }
}

/// A list of outcomes.
struct VerifiedList {
  struct Row {
    var line: UInt64
    /// Nil where the line holds no token.
    var key: GatewayRecord.Key?
    var outcome: String
    var reason: String

    var isRejected: Bool { outcome == Outcome.Kind.rejected.rawValue }
    /// How the row says it.
    var text: String { reason.isEmpty ? outcome : "\(outcome), \(reason)" }
    /// Neither outcome says whether the notification arrived.
    var mayHaveArrived: Bool { [Outcome.Kind.unknown, .held].map(\.rawValue).contains(outcome) }
    /// The reason comes from a gateway.
    var isOfGateway: Bool {
      isRejected && (reason.first?.isNumber == true || reason.hasPrefix("given up after ") || mayBeUnrecorded)
    }
    /// A connection that is closed without a reason, or a stream that is refused, leaves no line.
    var mayBeUnrecorded: Bool { reason == "closed without a reason" || reason == "given up after refused streams" }

    /// Whether the record says the same reason.
    func agrees(_ fate: GatewayRecord.Fate) -> Bool {
      guard let refusal = fate.refusal else { return mayBeUnrecorded }
      if mayBeUnrecorded { return true }
      return VerifiedList.isSame(reason, refusal)
    }
  }

  /// Whether a reason of a list is what a record calls `refusal`: over the binary protocol the
  /// number of a status, over HTTP/2 the answer in words.
  static func isSame(_ reason: String, _ refusal: String) -> Bool {
    if UInt8(refusal) != nil { return reason.split(separator: " ").first.map(String.init) == refusal }
    return reason == refusal || reason == "given up after \(refusal)"
  }

  /// The rows of each app, by its id, in order.
  private(set) var rows: [String: [Row]] = [:]
  private(set) var rowCount = 0
  private(set) var repeated: [(app: String, line: UInt64)] = []

  private struct Place: Hashable {
    var app: String
    var tokens: String
    var line: UInt64
  }

  /// - Parameter ids: of the account: a list without the column `app` is about the only one.
  init(file: String, ids: [String]) throws(CarillonError) {
    guard let content = try? Data(contentsOf: URL(filePath: file), options: .mappedIfSafe) else {
      throw CarillonError(.list, "\(file) cannot be read")
    }
    var records = CSVText.records(content).makeIterator()
    let names = records.next().map { CSVText.fields($0.dropLast()) } ?? []
    guard names.starts(with: ["line", "token", "outcome", "reason"]) else {
      throw CarillonError(.list, "\(file) is no list of outcomes: its first line is not line,token,outcome,reason")
    }
    let appColumn = names.firstIndex(of: "app")
    guard appColumn != nil || ids.count == 1 else {
      throw CarillonError(.list, "\(file) has no column app, and the account has several apps")
    }
    var places: Set<Place> = []
    while let record = records.next() {
      let fields = CSVText.fields(record.dropLast())
      guard record.last == UInt8(ascii: "\n"), fields.count == names.count, let line = UInt64(fields[0]) else {
        throw CarillonError(.list, "row \(rowCount + 1) of \(file) is no row of a list of outcomes, or is cut off")
      }
      let app = appColumn.map { fields[$0] } ?? ids.first ?? ""
      let place = Place(app: app, tokens: appColumn.map { fields[$0 + 1] } ?? "", line: line)
      if !places.insert(place).inserted { repeated.append((app, line)) }
      rowCount += 1
      var row = Row(line: line, key: nil, outcome: fields[2], reason: fields[3])
      if row.outcome != "rejected" || row.isOfGateway || row.reason == "payload too large" {
        row.key = (try? TokenBytes(parsing: fields[1])).map(GatewayRecord.Key.device) ?? .channel(fields[1])
      }
      rows[app, default: []].append(row)
    }
    if let stranger = rows.keys.filter({ !ids.contains($0) }).min() {
      throw CarillonError(.list, "\(file) has rows of \(stranger), which the account does not name")
    }
  }
}

extension Verification {
  var json: String {
    return JSONWriter.text {
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
  }
}
