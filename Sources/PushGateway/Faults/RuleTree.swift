/// A rules file before it is interpreted: maps, lists and texts. Numbers and booleans stay text, so
/// that a token or prefix of digits (`00`, `1e10`) keeps its zeros.
///
/// `Decodable`, so that any decoder can fill it (YAML, JSON, a literal in a test).
package indirect enum RuleTree: Hashable, Sendable {
  case text(String)
  case list([RuleTree])
  case map([String: RuleTree])
}

extension RuleTree: Decodable {
  private struct CodedKey: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }
    init?(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
  }

  package init(from decoder: any Decoder) throws {
    if let map = try? decoder.container(keyedBy: CodedKey.self) {
      self = try .map(map.allKeys.reduce(into: [:]) { $0[$1.stringValue] = try map.decode(RuleTree.self, forKey: $1) })
    } else if var list = try? decoder.unkeyedContainer() {
      var elements: [RuleTree] = []
      while !list.isAtEnd { elements.append(try list.decode(RuleTree.self)) }
      self = .list(elements)
    } else {
      let value = try decoder.singleValueContainer()
      if let text = try? value.decode(String.self) {
        self = .text(text)
      } else if value.decodeNil() {
        self = .text("")
      } else if let truth = try? value.decode(Bool.self) {
        self = .text(truth ? "true" : "false")
      } else if let number = try? value.decode(Int.self) {
        self = .text(String(number))
      } else {
        throw DecodingError.dataCorruptedError(
          in: value, debugDescription: "expected a text, a whole number, true or false")
      }
    }
  }
}

extension RuleTree: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
  ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
  package typealias Key = String
  package typealias Value = RuleTree

  package init(stringLiteral text: String) { self = .text(text) }
  package init(integerLiteral number: Int) { self = .text(String(number)) }
  package init(booleanLiteral truth: Bool) { self = .text(truth ? "true" : "false") }
  package init(arrayLiteral elements: RuleTree...) { self = .list(elements) }
  package init(dictionaryLiteral pairs: (String, RuleTree)...) { self = .map(Dictionary(pairs) { _, last in last }) }
}

/// An error in a rules file, and its place.
package struct FaultRulesError: Error, Hashable, Sendable, CustomStringConvertible {
  /// Keys and indices from the outside in, such as `apps.com.example.news.refuse[0].status`. Empty
  /// for the file as a whole.
  package let path: String
  package let problem: String

  package init(path: String, problem: String) { (self.path, self.problem) = (path, problem) }

  package var description: String {
    path.isEmpty ? "The fault rules: \(problem)." : "The fault rule \(path): \(problem)."
  }
}
