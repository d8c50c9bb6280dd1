internal import PushEngine
internal import Testing

struct AudienceHeaderTests {
  private func detect(_ text: String, isWhole: Bool = true) throws(AudienceFormatError) -> AudienceHeader? {
    try AudienceHeader.detect(Array(text.utf8), isWhole: isWhole)
  }

  @Test("a header needs a column named token; everything before the first row belongs to it")
  func header() throws {
    let header = try #require(try detect("\u{FEFF}\n \r\nid,\"to\"\"ken\", TOKEN\r\n1,2,3\n"))
    #expect(header.columns == ["id", "to\"ken", "TOKEN"])
    #expect(header.tokenColumn == 2)
    #expect(header.firstLine == 4)
    #expect(header.byteCount == "\u{FEFF}\n \r\nid,\"to\"\"ken\", TOKEN\r\n".utf8.count)
    #expect(try detect("token\n\(Audience.token)")?.columns == ["token"])
  }

  @Test(
    "without such a header a file is plain lines",
    arguments: ["\(Audience.token)\n", "rubbish\n", "a,b\n\(Audience.token)\n", "\(Audience.token)"])
  func plain(text: String) throws {
    let header = try #require(try detect(text))
    #expect(!header.isCSV)
    #expect(header.byteCount == 0)
    #expect(header.firstLine == 1)
  }

  @Test("a file that is no audience is refused with a sentence")
  func refused() {
    func sentence(_ text: String) -> String? {
      do {
        _ = try detect(text)
        return nil
      } catch { return AudienceError(path: "list.csv", problem: .format(error)).description }
    }
    #expect(
      sentence("")
        == "list.csv holds no device token: give one token per line, or CSV with a header that has a column \"token\".")
    #expect(sentence(" \n\r\n") == sentence(""))
    #expect(sentence("token,name\n \n") == sentence(""))
    #expect(
      sentence("\nid,name\n1,Ann\n")?.contains("line 2: the header has no column \"token\" (it has \"id\", \"name\")")
        == true)
    #expect(sentence("token;name\n\(Audience.token);Ann\n")?.contains("separated by semicolons") == true)
    #expect(sentence("token,name,name\n1,2,3")?.contains("\"name\" twice") == true)
    #expect(throws: AudienceFormatError.notUTF8) { try AudienceHeader.detect([0xFF, 0xFE, 0x61, 0], isWhole: true) }
  }

  @Test("of a pipe no more is read than the decision needs")
  func needsMore() throws {
    for text in ["", "\n", "token,n", "id,name\n", "id,name\n\(Audience.token)"] {
      #expect(try detect(text, isWhole: false) == nil, "\(text)")
    }
    for text in ["\(Audience.token)\n", "rubbish\n", "id,name\n\(Audience.token)\n"] {
      #expect(try detect(text, isWhole: false)?.isCSV == false, "\(text)")
    }
    #expect(try detect("token,n\n", isWhole: false)?.isCSV == true)
    #expect(try detect(String(repeating: "x", count: AudienceReader.lineByteLimit + 1), isWhole: false)?.isCSV == false)
    #expect(
      try detect(String(repeating: "\n", count: AudienceReader.lineByteLimit + 1), isWhole: false)?.isCSV == false)
  }
}
