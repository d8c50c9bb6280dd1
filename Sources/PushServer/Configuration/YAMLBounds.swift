internal import Carillon
internal import PushWire
internal import Yams

/// Limits of a YAML file. A small file with nested aliases can expand to billions of values, so
/// everything is checked before it is composed.
enum YAMLBounds {
  /// A configuration of a thousand apps has about 400 KiB.
  static let byteCount = 4 << 20
  /// Keys, texts, lists and maps, also repeated by an alias. A thousand apps have about 40,000.
  static let valueCount = 200_000
  /// The nesting of lists and maps. Carillon's files have six levels.
  static let depth = 32
  static let keyByteCount = 256
  /// Each `%TAG` is compared with all earlier ones.
  private static let directiveCount = 16
  /// Every value is a text here (``YAMLNode``). Yams finds other kinds by regular expressions. They
  /// need several megabytes of Unicode tables.
  private static let asText = Resolver.basic

  /// Composes a document within the limits; nil: the text holds none.
  static func compose(_ text: String, file: String) throws -> Node? {
    try checkSeparators(text, file: file)
    // Without an asterisk there is no alias, and no more values than separators.
    if text.utf8.contains(UInt8(ascii: "*")) { try checkAliases(text, file: file) }
    return try Yams.compose(yaml: text, asText)
  }

  static func tooMany(file: String, line: Int?) -> ConfigurationError {
    ConfigurationError(
      file: file, line: line, problem: "holds more than \(valueCount) values, with aliases expanded; split the file")
  }

  static func tooDeep(file: String, line: Int?) -> ConfigurationError {
    ConfigurationError(file: file, line: line, problem: "is nested deeper than \(depth) levels; use fewer")
  }

  // MARK: Before anything is composed

  /// Counts separators. Each value needs a comma, a bracket, an indicator or a line end, and none
  /// of these makes more than two values.
  private static func checkSeparators(_ text: String, file: String) throws(ConfigurationError) {
    var (count, line, directives) = (0, 1, 0)
    var isLineStart = true
    // True: the last byte is an indicator if a space follows.
    var isIndicator = false
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "\n"), UInt8(ascii: "\r"):
        count += isIndicator ? 2 : 1
        if byte == UInt8(ascii: "\n") { line += 1 }
      case UInt8(ascii: " "), UInt8(ascii: "\t"): count += isIndicator ? 1 : 0
      case UInt8(ascii: ","), UInt8(ascii: "["), UInt8(ascii: "{"): count += 1
      case UInt8(ascii: "%") where isLineStart: directives += 1
      default: break
      }
      isLineStart = byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r")
      isIndicator = byte == UInt8(ascii: "-") || byte == UInt8(ascii: "?") || byte == UInt8(ascii: ":")
      guard count <= 2 * valueCount else { throw tooMany(file: file, line: line) }
      guard directives <= directiveCount else {
        throw ConfigurationError(
          file: file, line: line, problem: "has more than \(directiveCount) lines that begin with \"%\"; leave them out"
        )
      }
    }
  }

  /// Checks how many values there are, with aliases expanded, and how deep they are nested.
  ///
  /// After composing it would be too late: Yams hashes keys and follows their aliases. So a copy is
  /// composed in which every asterisk is a tilde, which changes no position. A plain text that
  /// begins with a tilde then was an alias or a text. Both count as aliases, which gives an upper
  /// bound.
  private static func checkAliases(_ text: String, file: String) throws {
    let bytes = text.utf8.map { $0 == UInt8(ascii: "*") ? UInt8(ascii: "~") : $0 }
    let parser = try Parser(yaml: String(decoding: bytes, as: UTF8.self), resolver: asText)
    let root = try parser.singleRoot()
    // Nodes hold weak references to their anchors, which the parser owns.
    try withExtendedLifetime(parser) {
      guard let root else { return }
      var measurement = Measurement(file: file)
      _ = try measurement.measure(root, depth: 0)
    }
  }

  private struct Extent {
    var valueCount = 1
    /// The nesting of lists and maps; 0 for a text.
    var depth = 0

    mutating func add(_ part: Extent) {
      valueCount += part.valueCount
      depth = max(depth, part.depth + 1)
    }
  }

  private struct Measurement {
    let file: String
    /// The extent of each anchor at the current place in the document.
    private var anchors: [String: Extent] = [:]

    init(file: String) { self.file = file }

    /// - Parameter depth: The number of lists and maps around the node.
    mutating func measure(_ node: Node, depth: Int) throws(ConfigurationError) -> Extent {
      let line = node.mark?.line
      var extent = Extent()
      switch node {
      case .scalar(let scalar):
        if scalar.style == .plain, scalar.string.hasPrefix("~"), let known = anchors[Self.name(scalar.string)] {
          extent = known
        }
      case .sequence, .mapping:
        guard depth < YAMLBounds.depth else { throw tooDeep(file: file, line: line) }
        extent.depth = 1
        for part in parts(of: node) {
          extent.add(try measure(part, depth: depth + 1))
          guard extent.valueCount <= YAMLBounds.valueCount else { throw tooMany(file: file, line: line) }
        }
      case .alias: break
      }
      guard depth + extent.depth <= YAMLBounds.depth else { throw tooDeep(file: file, line: line) }
      if let anchor = node.anchor { anchors[anchor.rawValue] = extent }
      return extent
    }

    private func parts(of node: Node) -> [Node] {
      switch node {
      case .sequence(let sequence): Array(sequence)
      case .mapping(let mapping): mapping.flatMap { [$0.key, $0.value] }
      case .scalar, .alias: []
      }
    }

    /// The name of an alias, which ends where libyaml ends it.
    private static func name(_ text: String) -> String {
      String(text.dropFirst().prefix { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_" || $0 == "-") })
    }
  }
}
