internal import PushEngine
internal import PushWire
internal import Support
internal import Testing

/// The columns `apns-id` and `collapse-id`.
struct AudienceOwnHeadersTests {
  private let token = Audience.token
  private let identifier = "123e4567-e89b-12d3-a456-426614174000"
  private let head = "token,APNS-ID,name,collapse-id\n"

  @Test("a row sets its notification's identifiers, in upper or lower case; an empty field means the campaign's")
  func columns() throws {
    let file =
      head
      + "\(token),\(identifier.uppercased()),Ann,score\n\(token),,Bob,\n"
      + "\(token), ,Cy,\" a \"\"b\"\" \"\n\(token),\(identifier),Di,\n"
    let rows = try Audience.rows(
      file.replacing("\" a", with: "\"a").replacing(" \"\n", with: "\"\n"), template: #"{"a":"{{name}}"}"#,
      readsHeaders: true)
    #expect(
      rows == [
        Row(line: 2, kind: .ready, text: token, payload: #"{"a":"Ann"}"#, identifier: identifier, collapse: "score"),
        Row(line: 3, kind: .ready, text: token, payload: #"{"a":"Bob"}"#),
        Row(line: 4, kind: .ready, text: token, payload: #"{"a":"Cy"}"#, collapse: #"a "b""#),
        Row(line: 5, kind: .ready, text: token, payload: #"{"a":"Di"}"#, identifier: identifier),
      ])
  }

  @Test("without reading headers the columns are ordinary, and plain lines have none")
  func notRead() throws {
    let rows = try Audience.rows(
      head + "\(token),nonsense,Ann,\(String(repeating: "x", count: 70))\n", template: #"{"a":"{{collapse-id}}"}"#)
    #expect(rows.map(\.kind) == [.ready])
    #expect(rows[0].identifier == nil)
    #expect(rows[0].collapse.isEmpty)
    #expect(try Audience.rows("\(token)\n", readsHeaders: true) == [Row(line: 1, kind: .ready, text: token)])
  }

  @Test(
    "a value that cannot be sent rejects only its row, with a specific reason",
    arguments: [
      ("nonsense", "ok", AudienceEntry.Kind.malformedIdentifier),
      ("123e4567e89b12d3a456426614174000", "", .malformedIdentifier),
      ("", String(repeating: "x", count: 65), .malformedCollapseIdentifier),
      ("", "\u{E9}", .malformedCollapseIdentifier),
      ("", "\" x\"", .malformedCollapseIdentifier), ("", "\"x \"", .malformedCollapseIdentifier),
      ("", "a\u{7F}", .malformedCollapseIdentifier),
      ("", String(repeating: "x", count: 64), .ready), ("", "x", .ready),
    ])
  func malformed(identifier: String, collapse: String, kind: AudienceEntry.Kind) throws {
    let rows = try Audience.rows(
      head + "\(token),,Ann,\n\(token),\(identifier),Bob,\(collapse)\n\(token),,Cy,z\n", readsHeaders: true)
    #expect(rows.map(\.kind) == [.ready, kind, .ready])
    #expect(rows.map(\.text) == [token, token, token])
    #expect(rows[2].collapse == "z")
    if kind != .ready { #expect(kind.rejection.map { "\($0)" }?.hasPrefix("malformed ") == true) }
  }

  @Test("the entries are the same however the file is cut into blocks and chunks")
  func chunking() throws {
    var random = SeededGenerator(seed: 7)
    var file = head
    for number in 0..<300 {
      let own =
        random.chance(50)
        ? APNSIdentifier(high: random.next(), low: random.next()).description : random.chance(10) ? "bad" : ""
      let collapse = random.chance(50) ? String(repeating: "c", count: Int.random(in: 1...66, using: &random)) : ""
      file += "\(token),\(own),\(number),\(random.chance(30) ? "\"\(collapse)\"" : collapse)\n"
    }
    let template = #"{"a":"{{name}}"}"#
    let whole = try Audience.rows(file, template: template, readsHeaders: true)
    #expect(whole.count == 300)
    #expect(whole.contains { $0.kind == .malformedIdentifier })
    #expect(whole.contains { $0.kind == .malformedCollapseIdentifier })
    for cut in [1, 7, 64, 1000] {
      #expect(
        try Audience.rows(file, template: template, readsHeaders: true, entryLimit: 13, cut: { cut }) == whole, "\(cut)"
      )
    }
  }
}
