package import Carillon
internal import PushWire

/// One map of a YAML file. Each known key is taken; keys that remain at the end are errors.
package struct YAMLReader {
  package let node: YAMLNode
  private var entries: [(key: String, line: Int, value: YAMLNode)]
  private var known: [String] = []

  /// - Throws: ``ConfigurationError`` when the node is not a map. A key without a value is an empty
  ///   map.
  package init(_ node: YAMLNode) throws(ConfigurationError) {
    self.node = node
    switch node.content {
    case .map(let entries): self.entries = entries
    case .text(""): entries = []
    default: throw node.error("must hold keys and values, as in \"key: value\"")
    }
  }

  /// The value of a key; nil: the key is absent or has no value.
  package mutating func take(_ key: String) -> YAMLNode? {
    known.append(key)
    guard let index = entries.firstIndex(where: { $0.key == key }) else { return nil }
    let value = entries.remove(at: index).value
    if case .text("") = value.content { return nil }
    return value
  }

  /// Like ``take(_:)``, for a required key.
  package mutating func require(_ key: String, example: String) throws(ConfigurationError) -> YAMLNode {
    guard let value = take(key) else { throw node.error("needs the key \"\(key)\", as in \"\(key): \(example)\"") }
    return value
  }

  /// Call it after every known key was taken. Any other key is an error that suggests a known one.
  package func finish() throws(ConfigurationError) {
    guard let unknown = entries.first else { return }
    let place = node.path.isEmpty ? "" : " in \(node.path)"
    let advice =
      Suggestion.nearest(to: unknown.key, in: known).map { "did you mean \"\($0)\"?" }
      ?? "known here: \(known.joined(separator: ", "))"
    throw ConfigurationError(
      file: node.file, line: unknown.line, problem: "unknown key \(unknown.key.cited)\(place); \(advice)")
  }
}

/// A map whose keys may be in maps of their own: `batching.max-bytes` is `max-bytes` in `batching`.
struct YAMLSections {
  private var reader: YAMLReader
  private var sections: [String: YAMLReader] = [:]

  init(_ node: YAMLNode) throws(ConfigurationError) { reader = try YAMLReader(node) }

  mutating func take(_ key: String) throws(ConfigurationError) -> YAMLNode? {
    let parts = key.split(separator: ".", maxSplits: 1).map(String.init)
    guard parts.count == 2 else { return reader.take(key) }
    if sections[parts[0]] == nil, let section = reader.take(parts[0]) { sections[parts[0]] = try YAMLReader(section) }
    return sections[parts[0]]?.take(parts[1])
  }

  mutating func require(_ key: String, example: String) throws(ConfigurationError) -> YAMLNode {
    try reader.require(key, example: example)
  }

  /// As ``YAMLReader/finish()``.
  func finish() throws(ConfigurationError) {
    try reader.finish()
    for (_, section) in sections.sorted(by: { $0.key < $1.key }) { try section.finish() }
  }
}

extension YAMLNode {
  package func text() throws(ConfigurationError) -> String {
    guard case .text(let text) = content, !text.isEmpty else { throw error("must be a single value") }
    return text
  }

  package func list() throws(ConfigurationError) -> [YAMLNode] {
    guard case .list(let elements) = content else { throw error("must be a list, each entry beginning with \"- \"") }
    return elements
  }

  package func integer(in range: ClosedRange<Int>) throws(ConfigurationError) -> Int {
    try value { text throws(ValueError) in try Quantity.integer(text, in: range) }
  }

  /// One of the raw values of `Choice`.
  package func choice<Choice: RawRepresentable & CaseIterable>(_ type: Choice.Type) throws(ConfigurationError) -> Choice
  where Choice.RawValue == String {
    let words = Choice.allCases.map(\.rawValue)
    guard let choice = Choice(rawValue: try word(of: words)) else { throw error("is none of \(words)") }
    return choice
  }

  /// One of these.
  func word(of words: [String]) throws(ConfigurationError) -> String {
    let text = try text()
    if words.contains(text) { return text }
    let advice = Suggestion.nearest(to: text, in: words).map { "; did you mean \"\($0)\"?" } ?? ""
    throw error("must be \(words.joined(separator: " or ")), not \(text.cited)\(advice)")
  }

  package func byteCount(in range: ClosedRange<Int>) throws(ConfigurationError) -> Int {
    try value { text throws(ValueError) in try Quantity.byteCount(text, in: range) }
  }

  package func duration(in range: ClosedRange<Duration>) throws(ConfigurationError) -> Duration {
    try value { text throws(ValueError) in try Quantity.duration(text, in: range) }
  }

  private func value<Value>(_ read: (String) throws(ValueError) -> Value) throws(ConfigurationError) -> Value {
    let text = try text()
    do throws(ValueError) { return try read(text) } catch { throw self.error(error.problem) }
  }

  /// Notifications per second.
  package func rate() throws(ConfigurationError) -> Double {
    let text = try text()
    guard let value = Quantity.rate(text) else {
      throw error("must be a rate such as 5000/s or 300/m, not \(text.cited)")
    }
    return value
  }

  /// A path. A relative one starts at the folder of the file.
  package func filePath() throws(ConfigurationError) -> String { FilePath.resolve(try text(), besides: file) }
}
