internal import PushEngine
internal import Support
internal import Testing

struct AudienceReaderTests {
  let token = Audience.token
  let other = Audience.other

  @Test(
    "plain lines: blank ones are skipped, all kinds of line ends are read, malformed ones are reported with their line")
  func plainLines() throws {
    let file =
      "\u{FEFF}\(token)\r\n\n   \n<\(other.prefix(8)) \(other.dropFirst(8))>\nnot a token\n"
      + "\(token)0\n\(token.uppercased())"
    let expected = [
      Row(line: 1, kind: .ready, text: token), Row(line: 4, kind: .ready, text: other),
      Row(line: 5, kind: .malformedToken, text: "not a token"),
      Row(line: 6, kind: .malformedToken, text: token + "0"), Row(line: 7, kind: .ready, text: token),
    ]
    #expect(try Audience.rows(file) == expected)
  }

  @Test("CSV: the token column is found by name, fields may be quoted, and a record may span lines")
  func csv() throws {
    let file =
      "\nname, Token ,note\r\nAnn,\(token),hello\r\n\"Bob, jr.\", \"\(other)\" ,"
      + "\"two\nlines and \"\"quotes\"\"\"\r\n\n5\" tall,\(token),\n"
    let template = #"{"aps":{"alert":"{{name}}: {{note}}"}}"#
    let expected = [
      Row(line: 3, kind: .ready, text: token, payload: #"{"aps":{"alert":"Ann: hello"}}"#),
      Row(line: 4, kind: .ready, text: other, payload: #"{"aps":{"alert":"Bob, jr.: two\nlines and \"quotes\""}}"#),
      Row(line: 7, kind: .ready, text: token, payload: #"{"aps":{"alert":"5\" tall: "}}"#),
    ]
    #expect(try Audience.rows(file, template: template) == expected)
  }

  @Test(
    "only a malformed CSV row is rejected, not its neighbours",
    arguments: [
      ("TOKEN,Ann,x", AudienceEntry.Kind.malformedRow), ("TOKEN", .malformedRow), ("TOKEN,\"Ann\"x", .malformedRow),
      (",Ann", .malformedToken),
      ("zz,Ann", .malformedToken), ("\"\",Ann", .malformedToken), ("TOKEN,Ann", .ready),
    ])
  func badRows(row: String, kind: AudienceEntry.Kind) throws {
    let rows = try Audience.rows("token,name\n\(other),Zoe\n\(row.replacing("TOKEN", with: token))\n\(other),Zoe\n")
    #expect(rows.map(\.kind) == [.ready, kind, .ready])
    #expect(rows.map(\.line) == [2, 3, 4])
  }

  @Test("a value that is not UTF-8 is rejected, and one that makes the payload too large as well")
  func badValues() throws {
    var bytes = Array("token,name\n\(token),".utf8)
    bytes += [0x4D, 0xFC, 0x6C]
    bytes += Array(
      "\n\(token),\(String(repeating: "\"\"", count: 21))\n\(token),\(String(repeating: "n", count: 20))\n".utf8)
    let rows = try Audience.rows(bytes, template: #"{"a":"{{name}}"}"#, byteLimit: 28)
    #expect(rows.map(\.kind) == [.malformedText, .payloadTooLarge, .ready])
    #expect(rows.map(\.text) == [token, token, token])
  }

  @Test("a line of more than 64 KiB is rejected with its beginning, and the line after it is read")
  func overlongLine() throws {
    for length in [AudienceReader.lineByteLimit, AudienceReader.lineByteLimit + 1, AudienceReader.lineByteLimit * 3] {
      for cut in [1000, 65_536, 65_537, Int.max] {
        let rows = try Audience.rows(
          "\(token)\n\(String(repeating: "é", count: length / 2))\(length % 2 == 0 ? "" : "x")\n\(other)\n",
          cut: { cut })
        #expect(
          rows.map(\.kind) == [
            .ready, length > AudienceReader.lineByteLimit ? .overlongLine : .malformedToken, .ready,
          ], "\(length) \(cut)")
        #expect(rows.map(\.line) == [1, 2, 3])
        #expect(rows[1].text == String(repeating: "é", count: 50))
      }
    }
  }

  @Test("a quote that is never closed rejects its own line only; every line has an entry")
  func unclosedQuote() throws {
    for count in [1, 1000, 5000] {
      for cut in [777, 65_536, 65_537, 100_000, Int.max] {
        let file = "token,name\n\(token),\"Ann\r\n" + String(repeating: "\(other),Zoe\n", count: count)
        for file in [file, String(file.dropLast())] {
          let rows = try Audience.rows(file, entryLimit: 100, cut: { cut })
          let expected =
            [Row(line: 2, kind: .malformedRow, text: "\(token),\"Ann")]
            + (0..<count).map { Row(line: UInt64($0 + 3), kind: .ready, text: other) }
          #expect(rows == expected, "\(count) \(cut)")
        }
      }
    }
  }

  @Test("an open quote at the end of the file is a malformed row")
  func openQuoteAtEnd() throws {
    for end in ["", "\n", "\r\n", "\n\n"] {
      let rows = try Audience.rows("token,name\n\(token),Zoe\n\(token),\"Ann\(end)")
      #expect(rows.dropFirst() == [Row(line: 3, kind: .malformedRow, text: "\(token),\"Ann")])
    }
  }

  @Test("a quote that another row's quote closes hides no line, and a quote around more than 64 KiB is not closed")
  func wronglyClosedQuote() throws {
    let hidden = try Audience.rows("token,name\n\(token),\"Ann\n\(other),Zoe\n\(token),\"Bob\"\n\(other),Zoe\n")
    #expect(hidden.map(\.kind) == [.malformedRow, .ready, .ready, .ready])
    #expect(hidden.map(\.line) == [2, 3, 4, 5])
    for count in [850, 851, 900] {
      // The record with the quotes has count * 77 + 66 bytes; the limit is reached with 851.
      let lines = String(repeating: "\(other),Zoe of York\n", count: count)
      for cut in [1000, 65_537, Int.max] {
        let rows = try Audience.rows("token,name\n\(token),\"\(lines)\"\n\(other),Zoe\n", cut: { cut })
        guard count > 850 else {
          #expect(rows.map(\.line) == [2, 853])
          #expect(rows.map(\.kind) == [.ready, .ready])
          continue
        }
        #expect(rows.map(\.line) == (2...count + 3).map(UInt64.init), "\(count) \(cut)")
        #expect(rows.filter { $0.kind != .ready }.map(\.line) == [2, UInt64(count + 2)], "\(count) \(cut)")
      }
    }
  }

  @Test("a line that opens a quote and has more than 64 KiB, or just as much, is one entry")
  func overlongQuotedLine() throws {
    for excess in [-1, 0, 1, 100_000] {
      let line = "\(token),\"" + String(repeating: "n", count: AudienceReader.lineByteLimit - 66 + excess)
      for cut in [1000, 65_536, 65_537, Int.max] {
        let rows = try Audience.rows("token,name\n\(line)\n\(other),\"Zoe\"\n\(other),Zoe\n", cut: { cut })
        #expect(rows.map(\.kind) == [excess > 0 ? .overlongLine : .malformedRow, .ready, .ready], "\(excess) \(cut)")
        #expect(rows.map(\.line) == [2, 3, 4], "\(excess) \(cut)")
      }
    }
  }

  @Test("with quotes that are never closed in any lines, each line is one entry, however the file is cut")
  func everyLineIsAccountedFor() throws {
    for _ in 0..<25 {
      let seed = SeededGenerator.freshSeed()
      var random = AudienceRandom(seed: seed)
      let kinds = (0..<Int.random(in: 1...3000, using: &random)).map { _ in Int.random(in: 0..<500, using: &random) }
      var (file, expected) = ("token,name\n", [Row]())
      for (index, kind) in kinds.enumerated() {
        let row =
          switch kind {
          case 0: "\(token),\"Ann"
          case 1: "\(token),5\" \"tall\",\"x"
          case 2: "\"\(token),Ann"
          default: "\(token),Ann"
          }
        let line = UInt64(index + 2)
        expected.append(
          kind > 2 ? Row(line: line, kind: .ready, text: token) : Row(line: line, kind: .malformedRow, text: row))
        file += row + (index == kinds.count - 1 && kind % 2 == 0 ? "" : "\n")
      }
      let largest = [100, 5000, 70_000, 200_000].randomElement(using: &random) ?? 100
      let rows = try Audience.rows(
        file, entryLimit: [1, 7, 1000].randomElement(using: &random) ?? 1,
        cut: { Int.random(in: 1...largest, using: &random) })
      #expect(rows == expected, "seed \(seed)")
    }
  }

  @Test("random files give the same entries however they are cut and however small the chunks are")
  func anyCut() throws {
    for _ in 0..<150 {
      let seed = SeededGenerator.freshSeed()
      var random = AudienceRandom(seed: seed)
      let pieces = [
        "\(token),Ann\n", "\(other),\"B\"\"o\nb\"\r\n", "\n", " \n", "\"\n", "x,y\n", "\(token)\n", ",\n",
        "\"\(token)\",\"\"\n", "\r\n",
        "\(token),5\" é\n", "\(String(repeating: "y", count: Int.random(in: 1...400, using: &random)))\n", ",", "\"",
        "\(token), Tom \n",
      ]
      let isCSV = Bool.random(using: &random)
      var file = isCSV ? "token,name\n\(token),Ann\n" : "\(token)\n"
      for _ in 0..<Int.random(in: 1...60, using: &random) { file += pieces.randomElement(using: &random) ?? "" }
      if Bool.random(using: &random) { file.removeLast() }
      let template = isCSV && Bool.random(using: &random) ? #"{"a":"{{name}}"}"# : nil
      let whole = try Audience.rows(file, template: template, byteLimit: 100)
      let largest = [1, 7, 100].randomElement(using: &random) ?? 1
      let cut = try Audience.rows(
        file, template: template, byteLimit: 100, entryLimit: Int.random(in: 1...5, using: &random),
        cut: { Int.random(in: 1...largest, using: &random) })
      #expect(whole == cut, "seed \(seed)")
    }
  }

  @Test("random bytes never stop the reader, and every line that is not blank has an entry")
  func randomBytes() throws {
    for _ in 0..<200 {
      let seed = SeededGenerator.freshSeed()
      var random = AudienceRandom(seed: seed)
      let alphabet = Array("0af \t\r\n,\"<>xé".utf8) + [0, 0xFF]
      let bytes =
        Array("\(token)\n".utf8)
        + (0..<Int.random(in: 0...300, using: &random)).map { _ in alphabet.randomElement(using: &random) ?? 0 }
      let lines = bytes.split(separator: UInt8(ascii: "\n")).count { line in
        line.contains { !" \t\r".utf8.contains($0) }
      }
      let rows = try Audience.rows(bytes, cut: { Int.random(in: 1...9, using: &random) })
      #expect(rows.count == lines, "seed \(seed)")
    }
  }

  @Test(
    "a line of more than 1 MiB ends the reading in the same place however the blocks are cut",
    arguments: [1 << 20, (1 << 20) + 1])
  func endlessLine(byteCount: Int) throws {
    let file = Array("\(Audience.token)\n\(String(repeating: "x", count: byteCount))\n\(Audience.other)\n".utf8)
    let header = try #require(try AudienceHeader.detect(file, isWhole: true))
    for size in [1, 1000, 65_536, 65_537, 1 << 20, file.count] where size > 1 || byteCount > 1 << 20 {
      var reader = AudienceReader(header)
      let chunk = AudienceChunk()
      var position = 0
      while position < file.count, reader.endlessLine == nil {
        let block = file[position..<min(file.count, position + size)]
        position += unsafe block.withUnsafeBytes { unsafe reader.read($0, into: chunk) }
      }
      let isEndless = byteCount > AudienceReader.skippedByteLimit
      #expect(reader.endlessLine == (isEndless ? 2 : nil), "blocks of \(size)")
      let kinds = (0..<chunk.count).map { chunk[$0].kind }
      #expect(kinds == [.ready, .overlongLine] + (isEndless ? [] : [.ready]), "blocks of \(size)")
    }
  }
}

/// SplitMix64, the same on every machine.
struct AudienceRandom: RandomNumberGenerator {
  private var state: UInt64
  init(seed: UInt64) { state = seed }
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}
