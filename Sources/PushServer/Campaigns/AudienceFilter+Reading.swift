internal import PushStore
internal import PushWire

extension AudienceFilter {
  private static let wordLimit = 100

  init(_ value: JSONValue, at pointer: String) throws {
    self.init()
    var fields = try FieldReader(value, at: pointer)
    all = try fields.texts("all", limit: Self.wordLimit) ?? []
    any = try fields.texts("any", limit: Self.wordLimit) ?? []
    none = try fields.texts("none", limit: Self.wordLimit) ?? []
    languages = []
    for text in try fields.texts("languages", limit: Self.wordLimit) ?? [] {
      guard let language = LanguageTag.normalised(text) else {
        throw fields.wrong("languages", "\"\(text)\" is no language tag, such as \"de\" or \"pt-BR\".")
      }
      languages.append(language)
    }
    try fields.finish()
  }
}
