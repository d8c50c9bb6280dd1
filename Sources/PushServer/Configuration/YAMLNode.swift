package import Carillon
internal import PushWire
internal import Yams

/// A value of a YAML file with its place. Numbers and booleans are kept as text.
package struct YAMLNode: Sendable {
  package enum Content: Sendable {
    case text(String)
    case list([YAMLNode])
    case map([(key: String, line: Int, value: YAMLNode)])
  }

  package let content: Content
  package let file: String
  /// The line in the file, from 1.
  package let line: Int
  private let place: Place

  /// The place of a value, from the inside out. Text only for an error: there can be many values.
  private indirect enum Place: Sendable {
    case top
    case key(String, in: Place)
    case element(Int, in: Place)

    var path: String {
      switch self {
      case .top: ""
      case .key(let name, .top): name
      case .key(let name, let outer): "\(outer.path).\(name)"
      case .element(let index, let outer): "\(outer.path)[\(index)]"
      }
    }
  }

  /// Keys and indices, outermost first, such as `apps[0].batching.max-bytes`. Empty: the file.
  package var path: String { place.path }

  /// Reads a file with one document of at most 4 MiB, 200,000 values and 32 levels.
  package static func read(file: String) throws(ConfigurationError) -> YAMLNode {
    let bytes = try TextFile.read(file, byteLimit: YAMLBounds.byteCount)
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw ConfigurationError(file: file, problem: "is not UTF-8; save it as UTF-8")
    }
    return try parse(text, file: file)
  }

  package static func parse(_ text: String, file: String) throws(ConfigurationError) -> YAMLNode {
    do {
      guard let node = try YAMLBounds.compose(text, file: file) else {
        return YAMLNode(content: .text(""), file: file, line: 1, place: .top)
      }
      var conversion = Conversion(file: file)
      return try conversion.convert(node, place: .top, depth: 0)
    } catch let error as ConfigurationError {
      throw error
    } catch {
      throw syntaxError(error, file: file)
    }
  }

  private struct Conversion {
    let file: String
    private var valueCount = 0

    init(file: String) { self.file = file }

    mutating func convert(_ node: Node, place: Place, depth: Int) throws(ConfigurationError) -> YAMLNode {
      let line = node.mark?.line ?? 1
      valueCount += 1
      guard valueCount <= YAMLBounds.valueCount else { throw YAMLBounds.tooMany(file: file, line: line) }
      guard depth < YAMLBounds.depth || node.scalar != nil else { throw YAMLBounds.tooDeep(file: file, line: line) }
      switch node {
      case .scalar(let scalar):
        // `key:`, `key: null` and `key: ~` are empty values. In quotation marks they are texts.
        let isNothing = scalar.style == .plain && ["", "~", "null", "Null", "NULL"].contains(scalar.string)
        return YAMLNode(content: .text(isNothing ? "" : scalar.string), file: file, line: line, place: place)
      case .sequence(let sequence):
        var elements: [YAMLNode] = []
        for (index, element) in sequence.enumerated() {
          elements.append(try convert(element, place: .element(index, in: place), depth: depth + 1))
        }
        return YAMLNode(content: .list(elements), file: file, line: line, place: place)
      case .mapping(let mapping):
        var entries: [(key: String, line: Int, value: YAMLNode)] = []
        for (key, value) in mapping {
          let keyLine = key.mark?.line ?? line
          valueCount += 1
          guard let name = key.scalar?.string else {
            throw ConfigurationError(file: file, line: keyLine, problem: "a key must be a single word")
          }
          guard name.utf8.count <= YAMLBounds.keyByteCount else {
            throw ConfigurationError(
              file: file, line: keyLine, problem: "a key is longer than \(YAMLBounds.keyByteCount) bytes: \(name.cited)"
            )
          }
          entries.append((name, keyLine, try convert(value, place: .key(name, in: place), depth: depth + 1)))
        }
        return YAMLNode(content: .map(entries), file: file, line: line, place: place)
      case .alias:
        throw ConfigurationError(file: file, line: line, problem: "an alias without its anchor")
      }
    }
  }

  private static func syntaxError(_ error: any Error, file: String) -> ConfigurationError {
    switch error as? YamlError {
    case .scanner(_, let problem, let mark, _), .parser(_, let problem, let mark, _),
      .composer(_, let problem, let mark, _):
      ConfigurationError(file: file, line: mark.line, problem: "not valid YAML: \(problem)")
    case .duplicatedKeysInMapping(let duplicates, let context):
      ConfigurationError(
        file: file, line: context.mark.line,
        problem: "the key \(duplicates.prefix(3).map(\.cited).joined(separator: ", ")) occurs twice; keep one")
    case .reader(let problem, _, _, _): ConfigurationError(file: file, problem: "not valid YAML: \(problem)")
    default:
      ConfigurationError(file: file, problem: "not valid YAML: \(error)")
    }
  }

  package func error(_ problem: String) -> ConfigurationError {
    ConfigurationError(file: file, line: line, problem: path.isEmpty ? problem : "\(path) \(problem)")
  }
}
