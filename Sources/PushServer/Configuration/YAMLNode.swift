internal import Yams

/// A piece of a YAML file as it was written, with its place. Numbers and truth values are the text that stands there.
package struct YAMLNode: Sendable {
  package enum Content: Sendable {
    case text(String)
    case list([YAMLNode])
    case map([(key: String, line: Int, value: YAMLNode)])
  }

  package let content: Content
  package let file: String
  /// From 1.
  package let line: Int
  /// Keys and positions from the outside in, such as `apps[0].batching.max-bytes`; empty for the file as a whole.
  package let path: String

  /// Reads a file of one document.
  package static func read(file: String) throws(ConfigurationError) -> YAMLNode {
    let bytes = try TextFile.read(file)
    guard let text = String(validating: bytes, as: UTF8.self) else { throw ConfigurationError(file: file, problem: "is not UTF-8; save it as UTF-8") }
    return try parse(text, file: file)
  }

  package static func parse(_ text: String, file: String) throws(ConfigurationError) -> YAMLNode {
    do {
      guard let node = try Yams.compose(yaml: text) else { return YAMLNode(content: .text(""), file: file, line: 1, path: "") }
      return try convert(node, file: file, path: "")
    } catch let error as ConfigurationError {
      throw error
    } catch {
      throw syntaxError(error, file: file)
    }
  }

  private static func convert(_ node: Node, file: String, path: String) throws(ConfigurationError) -> YAMLNode {
    let line = node.mark?.line ?? 1
    switch node {
    case .scalar(let scalar):
      // `key:`, `key: null` and `key: ~` hold nothing; in quotes they are texts.
      let isNothing = scalar.style == .plain && ["", "~", "null", "Null", "NULL"].contains(scalar.string)
      return YAMLNode(content: .text(isNothing ? "" : scalar.string), file: file, line: line, path: path)
    case .sequence(let sequence):
      var elements: [YAMLNode] = []
      for (index, element) in sequence.enumerated() { elements.append(try convert(element, file: file, path: "\(path)[\(index)]")) }
      return YAMLNode(content: .list(elements), file: file, line: line, path: path)
    case .mapping(let mapping):
      var entries: [(key: String, line: Int, value: YAMLNode)] = []
      for (key, value) in mapping {
        let keyLine = key.mark?.line ?? line
        guard let name = key.scalar?.string else { throw ConfigurationError(file: file, line: keyLine, problem: "a key must be a single word") }
        entries.append((name, keyLine, try convert(value, file: file, path: path.isEmpty ? name : "\(path).\(name)")))
      }
      return YAMLNode(content: .map(entries), file: file, line: line, path: path)
    case .alias:
      throw ConfigurationError(file: file, line: line, problem: "an alias without its anchor")
    }
  }

  private static func syntaxError(_ error: any Error, file: String) -> ConfigurationError {
    switch error as? YamlError {
    case .scanner(_, let problem, let mark, _), .parser(_, let problem, let mark, _), .composer(_, let problem, let mark, _):
      ConfigurationError(file: file, line: mark.line, problem: "not valid YAML: \(problem)")
    case .duplicatedKeysInMapping(let duplicates, let context):
      ConfigurationError(
        file: file, line: context.mark.line, problem: "the key \(duplicates.map { "\"\($0)\"" }.joined(separator: ", ")) stands twice; keep one")
    default:
      ConfigurationError(file: file, problem: "not valid YAML: \(error)")
    }
  }

  /// An error about this piece.
  package func error(_ problem: String) -> ConfigurationError {
    ConfigurationError(file: file, line: line, problem: path.isEmpty ? problem : "\(path) \(problem)")
  }
}
