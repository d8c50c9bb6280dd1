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
    languages = try fields.texts("languages", limit: Self.wordLimit) ?? []
    for language in languages where LanguageTag.canonical(language) == nil {
      throw fields.wrong("languages", "\"\(language)\" is no language tag, such as \"de\" or \"pt-BR\".")
    }
    try fields.finish()
  }
}
