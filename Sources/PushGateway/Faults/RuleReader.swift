internal import PushWire

/// One map of a rules file. Each key is taken once; keys that remain at the end are unknown.
struct RuleReader {
  private var entries: [String: RuleTree]
  private let path: String

  init(_ tree: RuleTree, path: String) throws(FaultRulesError) {
    switch tree {
    case .map(let entries): self.entries = entries
    // An empty file, or a key without a value.
    case .text(""): entries = [:]
    default: throw FaultRulesError(path: path, problem: "must hold keys and values")
    }
    self.path = path
  }

  mutating func take(_ key: String) -> RuleValue? {
    entries.removeValue(forKey: key).map { RuleValue(tree: $0, path: path.isEmpty ? key : "\(path).\(key)") }
  }

  /// The map under a key; nil without the key.
  mutating func map(_ key: String) throws(FaultRulesError) -> RuleReader? {
    try take(key)?.reader()
  }

  /// The results of `read` for each map in the list under a key, or for a single map; nil without
  /// the key.
  mutating func entries<Entry>(
    _ key: String, _ read: (inout RuleReader) throws(FaultRulesError) -> Entry
  ) throws(FaultRulesError) -> [Entry]? {
    guard let value = take(key) else { return nil }
    var entries: [Entry] = []
    for entry in try value.listOrOne() {
      var reader = try entry.reader()
      entries.append(try read(&reader))
    }
    return entries
  }

  /// Keys that are allowed at the top level only.
  mutating func forbid(_ keys: [String], because reason: String) throws(FaultRulesError) {
    for key in keys { if let value = take(key) { throw value.error("is allowed at the top level only: \(reason)") } }
  }

  func finish() throws(FaultRulesError) {
    if let unknown = entries.keys.min() { throw error("unknown key \"\(unknown)\"") }
  }

  func error(_ problem: String) -> FaultRulesError { FaultRulesError(path: path, problem: problem) }
}

/// One value of a rules file, and its place in the file.
struct RuleValue {
  let tree: RuleTree
  let path: String

  func error(_ problem: String) -> FaultRulesError { FaultRulesError(path: path, problem: problem) }

  func reader() throws(FaultRulesError) -> RuleReader { try RuleReader(tree, path: path) }

  func text() throws(FaultRulesError) -> String {
    guard case .text(let text) = tree else { throw error("must be a single value") }
    return text
  }

  func isText(_ expected: String) -> Bool { tree == .text(expected) }

  func list() throws(FaultRulesError) -> [RuleValue] {
    guard case .list(let elements) = tree else { throw error("must be a list") }
    return elements.enumerated().map { RuleValue(tree: $1, path: "\(path)[\($0)]") }
  }

  /// The elements of a list, or a single entry.
  func listOrOne() throws(FaultRulesError) -> [RuleValue] {
    if case .map = tree { [self] } else { try list() }
  }

  func map() throws(FaultRulesError) -> [(String, RuleValue)] {
    switch tree {
    case .map(let entries): entries.map { ($0, RuleValue(tree: $1, path: "\(path).\($0)")) }
    case .text(""): []
    default: throw error("must hold keys and values")
    }
  }

  func integer(in range: ClosedRange<Int>) throws(FaultRulesError) -> Int {
    let text = try text()
    guard let number = Int(text) else { throw error("\"\(text)\" is not a whole number") }
    guard range.contains(number) else {
      let bound = number < range.lowerBound ? "less than \(range.lowerBound)" : "more than \(range.upperBound)"
      throw error("\(number) is \(bound)")
    }
    return number
  }

  func flag() throws(FaultRulesError) -> Bool { try choice(["true": true, "false": false]) }

  func choice(_ choices: [String: Bool]) throws(FaultRulesError) -> Bool {
    let text = try text()
    guard let choice = choices[text] else {
      throw error("\"\(text)\" is not one of \(choices.keys.sorted().joined(separator: ", "))")
    }
    return choice
  }

  func token() throws(FaultRulesError) -> TokenBytes {
    do throws(DeviceTokenError) {
      guard case .text(let text) = tree else { throw DeviceTokenError.empty }
      return try TokenBytes(parsing: text)
    } catch {
      throw self.error("is not a device token in hexadecimal digits (\(error))")
    }
  }

  /// A duration that may begin with a minus sign.
  func signedDuration() throws(FaultRulesError) -> Duration {
    let text = try text()
    guard text.hasPrefix("-") else { return try duration() }
    return .zero - (try RuleValue(tree: .text(String(text.dropFirst())), path: path).duration())
  }

  /// A number with a unit: ms, s, m or h.
  func duration() throws(FaultRulesError) -> Duration {
    let text = try text()
    let digits = text.prefix { $0.isNumber }
    let milliseconds: Int64? =
      switch text.dropFirst(digits.count) {
      case "ms": 1
      case "s": 1000
      case "m": 60_000
      case "h": 3_600_000
      default: nil
      }
    // A day is longer than any test, and the product cannot overflow.
    guard let milliseconds, let number = Int64(digits), number <= 86_400_000 / milliseconds else {
      throw error("\"\(text)\" is not a duration such as 200ms, 5s or 2m (up to 24h)")
    }
    return .milliseconds(number * milliseconds)
  }
}
