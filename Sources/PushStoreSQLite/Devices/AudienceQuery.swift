internal import GRDB
internal import PushStore

/// A filter as SQL, for one read: the smallest list of candidates that the tags give, and what
/// their devices must satisfy besides.
struct AudienceQuery {
  /// Numbers of the tags whose devices are the candidates. Empty: all devices of the app.
  private var driver: [Int64] = []
  private var conditions: [String] = []
  private var conditionArguments: [any DatabaseValueConvertible] = []
  private let app: Int64

  /// Every candidate belongs to the audience.
  private var isExact: Bool { conditions.isEmpty }

  /// Nil if no device can belong to the audience.
  ///
  /// - Parameter last: the last key of the audience.
  init?(_ database: Database, app name: String, filter: AudienceFilter, through last: Int64) throws {
    guard let app = try DeviceNames.find(name, database) else { return nil }
    self.app = app
    let find = try database.cachedStatement(
      sql: "SELECT number, deviceCount FROM deviceTagNames WHERE app = ? AND tag = ?")
    func tags(_ names: [String]) throws -> [(number: Int64, count: Int64)] {
      try Set(names).sorted().compactMap { tag in
        try Row.fetchOne(find, arguments: [app, tag]).map { ($0[0], $0[1]) }
      }
    }
    let all = try tags(filter.all).sorted { $0.count < $1.count }
    guard all.count == Set(filter.all).count else { return nil }
    let any = try tags(filter.any)
    guard filter.any.isEmpty || !any.isEmpty else { return nil }
    var rest = all[...]
    let anyCount = any.reduce(0) { $0 + $1.count }
    if let smallest = all.first, any.isEmpty || smallest.count <= anyCount {
      driver = [smallest.number]
      rest = all.dropFirst()
      if !any.isEmpty { demand(any.map(\.number)) }
    } else {
      driver = any.map(\.number)
    }
    for tag in rest { demand([tag.number]) }
    let none = try tags(filter.none)
    if !none.isEmpty { demand(none.map(\.number), not: true) }
    demandLanguages(filter.languages)
    if let activity = filter.activity {
      conditions.append(
        """
        EXISTS (
          SELECT 1 FROM activityTokens WHERE app = ? AND activity = ? AND isType = ? AND device = devices.token)
        """)
      conditionArguments += [name, activity.text, activity.isType]
    }
    if filter.isOncePerUser { demandLastOfUser(through: last) }
  }

  /// To be called at the end: another one must satisfy all the rest.
  private mutating func demandLastOfUser(through last: Int64) {
    var (others, arguments) = (conditions, conditionArguments)
    if !driver.isEmpty {
      others.append(Self.has(driver))
      arguments += driver
    }
    let rest = others.map { " AND " + $0.replacing("devices.", with: "other.") }.joined()
    func rank(_ device: String) -> String {
      "(coalesce(\(device).goneAt < \(device).registeredAt, TRUE), \(device).number)"
    }
    conditions.append(
      """
      (devices.userID IS NULL OR NOT EXISTS (
        SELECT 1 FROM devices AS other WHERE other.app = ? AND other.userID = devices.userID AND other.number <= ?
          AND \(rank("other")) > \(rank("devices"))\(rest)))
      """)
    conditionArguments += [app, last] + arguments
  }

  private static func has(_ tags: [Int64]) -> String {
    let marks = tags.map { _ in "?" }.joined(separator: ", ")
    return "EXISTS (SELECT 1 FROM deviceTags WHERE tag IN (\(marks)) AND device = devices.number)"
  }

  private mutating func demand(_ tags: [Int64], not: Bool = false) {
    conditions.append((not ? "NOT " : "") + Self.has(tags))
    conditionArguments += tags
  }

  private mutating func demandLanguages(_ languages: [String]) {
    guard !languages.isEmpty else { return }
    // "." follows "-".
    let one = "name = ? OR (name >= ? AND name < ?)"
    conditions.append(
      "devices.language IN (SELECT number FROM deviceNames WHERE \(languages.map { _ in one }.joined(separator: " OR ")))"
    )
    for language in languages { conditionArguments += [language, language + "-", language + "."] }
  }

  /// SQL that gives the candidates' numbers within the range, in order.
  private func candidates(after: Int64, through: Int64) -> (sql: String, arguments: StatementArguments) {
    if driver.isEmpty {
      return (
        "SELECT number FROM devices WHERE app = ? AND number > ? AND number <= ? ORDER BY number",
        [app, after, through]
      )
    }
    let one = "SELECT device AS number FROM deviceTags WHERE tag = ? AND device > ? AND device <= ?"
    var arguments = StatementArguments()
    for tag in driver { arguments += [tag, after, through] }
    return (driver.map { _ in one }.joined(separator: " UNION ") + " ORDER BY number", arguments)
  }

  /// The key up to which a read may look, so that it stays short; nil if it may look at everything.
  func end(_ database: Database, after: Int64, through: Int64, candidateLimit: Int) throws -> Int64? {
    let (sql, arguments) = candidates(after: after, through: through)
    let row = try Row.fetchOne(
      database.cachedStatement(sql: "SELECT count(*), max(number) FROM (\(sql) LIMIT ?)"),
      arguments: arguments + [candidateLimit])
    guard let row, row[0] as Int == candidateLimit else { return nil }
    return row[1]
  }

  /// The keys of those who match, by key, with or without their time zones.
  func rows(_ database: Database, after: Int64, through: Int64, withTimeZones: Bool) throws -> RowCursor {
    if isExact, !withTimeZones {
      let (sql, arguments) = candidates(after: after, through: through)
      return try Row.fetchCursor(database.cachedStatement(sql: sql), arguments: arguments)
    }
    let (source, arguments) = matches(after: after, through: through)
    return try Row.fetchCursor(
      database.cachedStatement(sql: "SELECT devices.number, timeZone \(source) ORDER BY candidate.number"),
      arguments: arguments)
  }

  func count(_ database: Database, after: Int64, through: Int64) throws -> Int {
    let (source, arguments) = matches(after: after, through: through)
    return try Int.fetchOne(database.cachedStatement(sql: "SELECT count(*) \(source)"), arguments: arguments) ?? 0
  }

  private func matches(after: Int64, through: Int64) -> (sql: String, arguments: StatementArguments) {
    let (sql, arguments) = candidates(after: after, through: through)
    let condition = conditions.isEmpty ? "" : "WHERE " + conditions.joined(separator: " AND ")
    // CROSS JOIN: the candidates are always the outer loop.
    return (
      "FROM (\(sql)) AS candidate CROSS JOIN devices ON devices.number = candidate.number \(condition)",
      arguments + StatementArguments(conditionArguments)
    )
  }
}
