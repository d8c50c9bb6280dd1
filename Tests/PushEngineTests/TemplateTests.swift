internal import PushEngine
internal import Testing

struct TemplateTests {
  private func template(_ text: String) throws(PayloadTemplateError) -> PayloadTemplate {
    try PayloadTemplate(parsing: Array(text.utf8))
  }

  @Test("placeholders are found inside strings, with spaces around their names, each column once")
  func columns() throws {
    let found = try template(#"{"a":"{{x}} {{ y z }}{{x}}","b\"":"{ {no}}","\\":"{{w}}"}"#)
    #expect(found.columns == ["x", "y z", "w"])
    #expect(String(decoding: found.sample, as: UTF8.self) == #"{"a":"x xx","b\"":"{ {no}}","\\":"x"}"#)
    #expect(try template(#"{"aps":{"badge":1}}"#).columns.isEmpty)
  }

  @Test(
    "a placeholder that cannot be filled safely is an error with its place",
    arguments: [
      ("{\n  \"a\": {{x}}\n}", PayloadTemplateError.outsideString(line: 2, column: 8)),
      (#"{"a":"{{x"}"#, .unclosed(line: 1, column: 7)),
      (#"{"a":"{{x}"#, .unclosed(line: 1, column: 7)), (#"{"a":"{{ }}"}"#, .unnamed(line: 1, column: 7)),
    ])
  func refused(text: String, error: PayloadTemplateError) {
    #expect(throws: error) { try template(text) }
  }

  @Test("a value cannot complete an escape: such a payload is malformed")
  func escapes() throws {
    #expect(String(decoding: try template(#"{"a":"\u{{x}}0041"}"#).sample, as: UTF8.self) == #"{"a":"\ux0041"}"#)
    #expect(try template(#"{"a":"\{{x}}"}"#).columns.isEmpty, "the backslash takes the first brace")
  }

  @Test("a missing column is an error that lists the columns")
  func missingColumn() throws {
    let found = try template(#"{"a":"{{first name}}"}"#)
    let csv = try #require(try AudienceHeader.detect(Array("token,name\n1,2\n".utf8), isWhole: true))
    let plain = try #require(try AudienceHeader.detect(Array(Audience.token.utf8), isWhole: true))
    let error = #expect(throws: PayloadTemplateError.self) { try found.renderer(for: csv, byteLimit: 256) }
    #expect(
      error?.description == #"the payload has the placeholder {{first name}}, "#
        + #"but the token file has no column "first name" (it has "token", "name")"#)
    let plainError = #expect(throws: PayloadTemplateError.self) { try found.renderer(for: plain, byteLimit: 256) }
    #expect(plainError?.description.contains("has no columns") == true)
  }

  @Test("values are escaped as JSON strings")
  func escaping() throws {
    let values = "quote\"\" back\\slash\ttab\nline\u{1}\u{7F}é漢😀/"
    let rows = try Audience.rows("token,v\n\(Audience.token),\"\(values)\"\n", template: #"{"a":"[{{v}}]"}"#)
    #expect(rows.map(\.payload) == [#"{"a":"[quote\" back\\slash\ttab\nline\u0001"# + "\u{7F}é漢😀/" + #"]"}"#])
  }

  @Test("a payload of exactly the limit is sent, one byte more is not")
  func limit() throws {
    let template = #"{"a":"{{v}}"}"#
    for (value, size) in [("12345", 13), ("\"\"\"\"\"12\"", 14)] {
      for limit in [size - 1, size, size + 1] {
        let rows = try Audience.rows("token,v\n\(Audience.token),\(value)\n", template: template, byteLimit: limit)
        #expect(rows.map(\.kind) == [limit < size ? .payloadTooLarge : .ready], "\(value) \(limit) \(rows)")
      }
    }
  }
}
