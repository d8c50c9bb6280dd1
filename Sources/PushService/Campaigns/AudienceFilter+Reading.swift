internal import PushStore
package import PushWire

extension AudienceFilter {
  private static let wordLimit = 100

  package init(_ value: JSONValue, at pointer: String) throws {
    self.init()
    let fields = try FieldReader(value, fields: ["all", "any", "none", "languages"], at: pointer)
    all = try fields.tags("all", limit: Self.wordLimit)
    any = try fields.tags("any", limit: Self.wordLimit)
    none = try fields.tags("none", limit: Self.wordLimit)
    languages = []
    for text in try fields.texts("languages", limit: Self.wordLimit) ?? [] {
      guard let language = LanguageTag.normalised(text) else {
        throw fields.wrong("languages", "\"\(text)\" is no language tag, such as \"de\" or \"pt-BR\".")
      }
      languages.append(language)
    }
  }
}

extension FieldReader {
  /// Tags as devices have them, however they were typed.
  fileprivate func tags(_ name: String, limit: Int) throws -> [String] {
    let texts = try texts(name, limit: limit) ?? []
    do { return try texts.map { try DeviceTag.normalised($0) } } catch let problem as Problem {
      throw wrong(name, problem.detail)
    }
  }
}
