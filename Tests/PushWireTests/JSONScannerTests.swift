internal import PushWire
internal import Support
internal import Testing

@Suite("JSON")
struct JSONScannerTests {
  private func outcome(
    _ bytes: [UInt8], depthLimit: Int = JSONScanner.depthLimit
  ) -> Result<JSONScanner.Kind, JSONError> {
    unsafe withExactBytes(bytes) { view in
      do throws(JSONError) {
        return .success(try unsafe JSONScanner.validate(view, depthLimit: depthLimit))
      } catch {
        return .failure(error)
      }
    }
  }

  private func outcome(_ text: String) -> Result<JSONScanner.Kind, JSONError> { outcome(Array(text.utf8)) }

  private func isObject(_ text: String) -> Bool {
    unsafe withExactBytes(Array(text.utf8)) { unsafe JSONScanner.isObject($0) }
  }

  @Test(
    "well-formed texts are accepted, and their kind is returned",
    arguments: [
      ("{}", .object), (" {} \r\n\t", .object), (#"{"a":1}"#, .object), (#"{"a":{"b":[]},"c":[{},[]]}"#, .object),
      ("[]", .array), ("[ ]", .array),
      ("[1,2 , 3]", .array),
      ("\"\"", .string), (#""\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00""#, .string), ("\"é€😀\u{7F}\"", .string),
      ("0", .number), ("-0", .number), ("10", .number),
      ("-1.5e+10", .number), ("1E9", .number), ("0.0", .number), ("0e-1", .number), ("true", .bool), ("false", .bool),
      ("null", .null), (#"{"":0}"#, .object),
      (#"{"a":1,"a":2}"#, .object), (#"["\uD800"]"#, .array),
    ] as [(String, JSONScanner.Kind)]
  )
  func accepted(_ text: String, _ kind: JSONScanner.Kind) {
    #expect(outcome(text) == .success(kind))
    #expect(isObject(text) == (kind == .object))
  }

  @Test(
    "malformed texts are refused at the place of the error",
    arguments: [
      ("", 0, .unexpectedEnd), ("  ", 2, .unexpectedEnd), ("{", 1, .unexpectedEnd), ("{\"a", 3, .unexpectedEnd),
      ("{\"a\"", 4, .unexpectedEnd),
      ("{\"a\":", 5, .unexpectedEnd), ("{\"a\":1", 6, .unexpectedEnd), ("{\"a\":1,", 7, .unexpectedEnd),
      ("[1,", 3, .unexpectedEnd), ("tru", 3, .unexpectedEnd),
      ("-", 0, .unexpectedEnd), ("1.", 0, .unexpectedEnd), ("1e", 0, .unexpectedEnd), ("\"\\", 2, .unexpectedEnd),
      ("\"\\u12", 5, .unexpectedEnd),
      ("{,}", 1, .unexpectedByte), ("{\"a\":1,}", 7, .unexpectedByte), ("[1,]", 3, .unexpectedByte),
      ("[1 2]", 3, .unexpectedByte),
      ("{\"a\" 1}", 5, .unexpectedByte),
      ("{a:1}", 1, .unexpectedByte), ("{'a':1}", 1, .unexpectedByte), ("{1:1}", 1, .unexpectedByte),
      ("[}", 1, .unexpectedByte), ("{]", 1, .unexpectedByte),
      ("[1}", 2, .unexpectedByte), ("{\"a\":1]", 6, .unexpectedByte), ("]", 0, .unexpectedByte),
      ("nul]", 3, .unexpectedByte), ("True", 0, .unexpectedByte),
      ("+1", 0, .unexpectedByte),
      (".5", 0, .unexpectedByte), ("NaN", 0, .unexpectedByte), ("{\"a\":}", 5, .unexpectedByte),
      ("// x\n{}", 0, .unexpectedByte),
      ("\u{FEFF}{}", 0, .unexpectedByte),
      ("\u{A0}{}", 0, .unexpectedByte), ("01", 0, .malformedNumber), ("[-]", 1, .malformedNumber),
      ("[1.]", 1, .malformedNumber),
      ("[1.e5]", 1, .malformedNumber),
      ("[1e]", 1, .malformedNumber), ("[1e+]", 1, .malformedNumber), ("[-01]", 1, .malformedNumber),
      ("{} {}", 3, .trailingBytes), ("{}\0", 2, .trailingBytes),
      ("1 2", 2, .trailingBytes),
      ("\"a\nb\"", 2, .controlCharacter), ("\"\u{1F}\"", 1, .controlCharacter), ("\"\0\"", 1, .controlCharacter),
      (#""\x""#, 1, .malformedEscape),
      (#""\u12G4""#, 1, .malformedEscape),
      (#""\U0041""#, 1, .malformedEscape),
    ] as [(String, Int, JSONError.Problem)]
  )
  func refused(_ text: String, _ offset: Int, _ problem: JSONError.Problem) throws {
    let error = #expect(throws: JSONError.self) { try outcome(text).get() }
    #expect(error?.offset == offset, "\(String(describing: error))")
    #expect(error?.problem == problem, "\(String(describing: error))")
    #expect(!isObject(text))
  }

  @Test(
    "invalid UTF-8 in a string is refused at its first byte",
    arguments: [
      [0x80], [0xBF], [0xC0, 0x80], [0xC1, 0xBF], [0xC3], [0xC3, 0x28], [0xE0, 0x80, 0x80], [0xE0, 0x9F, 0xBF],
      [0xE2, 0x82], [0xE2, 0x28, 0xA1],
      [0xE2, 0x82, 0x28],
      [0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF], [0xF0, 0x80, 0x80, 0x80], [0xF0, 0x8F, 0xBF, 0xBF], [0xF0, 0x9F, 0x98],
      [0xF0, 0x9F, 0x98, 0x28],
      [0xF4, 0x90, 0x80, 0x80],
      [0xF5, 0x80, 0x80, 0x80], [0xFE], [0xFF],
    ] as [[UInt8]]
  )
  func invalidUTF8(_ bytes: [UInt8]) {
    for end in [[0x22, 0x5D], []] as [[UInt8]] {
      let error = #expect(throws: JSONError.self) { try outcome([0x5B, 0x22, 0x61] + bytes + end).get() }
      #expect(error?.offset == 3, "\(String(describing: error))")
      #expect(error?.problem == .invalidUTF8, "\(String(describing: error))")
    }
  }

  @Test("UTF-8 is checked as by the standard library")
  func utf8Model() {
    var generator = SeededGenerator.fresh()
    let edges: [UInt8] = [
      0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3,
      0xF4, 0xF5, 0xFF,
    ]
    for _ in 0..<20000 {
      let bytes = (0..<Int.random(in: 1...5, using: &generator)).map { _ in edges.randomElement(using: &generator) ?? 0
      }
      let isValid = String(validating: bytes, as: UTF8.self) != nil
      #expect(
        (outcome([0x22] + bytes + [0x22]) == .success(.string)) == isValid, "seed \(generator.seed), bytes \(bytes)")
    }
  }

  @Test("nesting is bounded: 64 levels, or fewer if requested", arguments: [("[", "]"), ("{\"a\":", "}")])
  func depth(_ open: String, _ close: String) {
    func nested(_ count: Int) -> [UInt8] {
      Array((String(repeating: open, count: count) + "1" + String(repeating: close, count: count)).utf8)
    }
    func isTooDeep(_ result: Result<JSONScanner.Kind, JSONError>) -> Bool {
      if case .failure(let error) = result { error.problem == .tooDeep } else { false }
    }
    #expect((try? outcome(nested(64)).get()) != nil)
    #expect(isTooDeep(outcome(nested(65))))
    #expect(isTooDeep(outcome(nested(1000))))
    #expect((try? outcome(nested(3), depthLimit: 3).get()) != nil)
    #expect(isTooDeep(outcome(nested(4), depthLimit: 3)))
    #expect((try? outcome(nested(0), depthLimit: 0).get()) == .number)
  }

  @Test("levels of both kinds are closed by their own bracket")
  func levels() {
    var generator = SeededGenerator.fresh()
    for _ in 0..<300 {
      let kinds = (0..<Int.random(in: 1...64, using: &generator)).map { _ in generator.chance(50) }
      let text = kinds.map { $0 ? "{\"k\":" : "[" }.joined() + "0" + kinds.reversed().map { $0 ? "}" : "]" }.joined()
      #expect((try? outcome(text).get()) != nil, "seed \(generator.seed)")
      var wrong = Array(text.utf8)
      let place = wrong.count - 1 - Int.random(in: 0..<kinds.count, using: &generator)
      wrong[place] = wrong[place] == 0x7D ? 0x5D : 0x7D
      #expect((try? outcome(wrong).get()) == nil, "seed \(generator.seed)")
    }
  }

  @Test("a text that is cut anywhere, or has any changed byte, never crashes the scanner")
  func mutations() {
    let text = Array(
      #"{"aps":{"alert":{"title":"Grüße 😀","loc-args":["a",-1.5e3,true,null]},"badge":0},"k":["\u00e9\n"]}"#.utf8)
    #expect(outcome(text) == .success(.object))
    for count in 0..<text.count { #expect((try? outcome(Array(text.prefix(count))).get()) == nil, "cut at \(count)") }
    var generator = SeededGenerator.fresh()
    for _ in 0..<5000 {
      var changed = text
      for _ in 0..<Int.random(in: 1...3, using: &generator) {
        changed[Int.random(in: 0..<text.count, using: &generator)] = .random(in: 0 ... .max, using: &generator)
      }
      let isAccepted = (try? outcome(changed).get()) != nil
      let isParsed = unsafe withExactBytes(changed) { unsafe (try? JSONValue(parsing: $0)) != nil }
      #expect(isAccepted == isParsed, "seed \(generator.seed)")
    }
  }

  @Test("a value that was read is written compactly, with its keys in order and its numbers unchanged")
  func roundTrip() throws {
    let text = #" { "b" : 1.50 , "a" : [ true , null , "\u00e9\/\ud83d\ude00\u0001\"\\\n" , 1e3 ] , "b" : {} } "#
    let value = try unsafe withExactBytes(Array(text.utf8)) { try unsafe JSONValue(parsing: $0) }
    #expect(
      String(decoding: value.encoded, as: UTF8.self) == #"{"b":1.50,"a":[true,null,"é/😀\u0001\"\\\n",1e3],"b":{}}"#)
  }

  @Test("any text is unchanged after escaping and reading")
  func escaping() throws {
    var generator = SeededGenerator.fresh()
    let scalars: [Unicode.Scalar] = [
      "\"", "\\", "/", "\0", "\u{1F}", "\n", "\r", "\t", "\u{7F}", "a", "é", "€", "😀", "\u{2028}", "\u{FFFD}",
      "\u{301}",
    ]
    for _ in 0..<2000 {
      var text = ""
      for _ in 0..<Int.random(in: 0...12, using: &generator) {
        text.unicodeScalars.append(scalars.randomElement(using: &generator) ?? "a")
      }
      let encoded = JSONValue.string(text).encoded
      guard case .string(let read) = try unsafe withExactBytes(encoded, { try unsafe JSONValue(parsing: $0) }) else {
        Issue.record("not a string")
        return
      }
      #expect(Array(read.utf8) == Array(text.utf8), "seed \(generator.seed)")
      var raw: [UInt8] = []
      unsafe withExactBytes(Array(text.utf8)) { unsafe JSONText.appendEscaped($0, to: &raw) }
      #expect([0x22] + raw + [0x22] == encoded)
    }
  }

  @Test("numbers that JSON does not have become null")
  func notFinite() {
    #expect([Double.nan, .infinity, -.infinity].allSatisfy { JSONValue.double($0) == .null })
    #expect(JSONValue.double(0.25).encoded == Array("0.25".utf8))
  }
}
