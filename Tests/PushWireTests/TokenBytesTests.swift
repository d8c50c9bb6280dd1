internal import PushWire
internal import Support
internal import Testing

@Suite("Device tokens")
struct DeviceTokenTests {
  /// Parses from and into memory of exactly the needed size. Nil if the text is refused.
  private func parse(_ text: [UInt8], room: Int = 100) -> (bytes: [UInt8]?, error: DeviceTokenError?) {
    var failure: DeviceTokenError?
    let bytes = unsafe writingExactBytes(room) { destination in
      unsafe withExactBytes(text) { text in
        do throws(DeviceTokenError) {
          return try unsafe TokenBytes.parse(text, into: destination)
        } catch {
          failure = error
          return 0
        }
      }
    }
    return failure == nil ? (bytes, nil) : (nil, failure)
  }

  @Test(
    "digits of either case, spaces, tabs and one pair of angle brackets are read",
    arguments: [
      "0aff10", "0AFF10", "0aFf10", "0a ff 10", " 0aff10\t", "<0aff10>", "<0a ff10>", " < 0aff 10 > ", "0 a f f 1 0",
    ]
  )
  func spellings(_ text: String) throws {
    let token = try TokenBytes(parsing: text)
    #expect(token.bytes == [0x0A, 0xFF, 0x10])
    #expect(token.description == "0aff10")
  }

  @Test(
    "a text that is not a token is refused with reason and place",
    arguments: [
      ("", .empty), ("   ", .empty), ("<>", .empty), ("< >", .empty), ("a", .oddDigits), ("abc", .oddDigits),
      ("<abc>", .oddDigits),
      ("zz", .notHexadecimal(offset: 0)), ("0g", .notHexadecimal(offset: 1)), ("<00", .notHexadecimal(offset: 0)),
      ("00>", .notHexadecimal(offset: 2)),
      ("<<00>>", .notHexadecimal(offset: 1)), ("00é0", .notHexadecimal(offset: 2)),
      ("0011223344556677889:", .notHexadecimal(offset: 19)),
      ("00-11", .notHexadecimal(offset: 2)), ("0x00", .notHexadecimal(offset: 1)), ("00\n", .notHexadecimal(offset: 2)),
      (String(repeating: "0", count: 202), .tooLong), (String(repeating: "0", count: 201), .tooLong),
      (String(repeating: "0", count: 208), .tooLong),
    ] as [(String, DeviceTokenError)]
  )
  func mistakes(_ text: String, _ expected: DeviceTokenError) {
    #expect(throws: expected) { try TokenBytes(parsing: text) }
    #expect(parse(Array(text.utf8)).error == expected)
    #expect(expected.description.hasSuffix("."))
  }

  @Test("every length from 1 to 100 bytes is read in both spellings, and written back")
  func lengths() throws {
    var generator = SeededGenerator.fresh()
    for count in 1...100 {
      let bytes = generator.bytes(count)
      let token = try #require(TokenBytes(bytes: bytes))
      let text = token.description
      #expect(token.byteCount == count, "seed \(generator.seed)")
      #expect(token.bytes == bytes, "seed \(generator.seed)")
      #expect(try TokenBytes(parsing: text) == token)
      #expect(parse(Array(text.utf8), room: count).bytes == bytes, "no room to spare, seed \(generator.seed)")
      #expect(parse(Array(text.uppercased().utf8), room: count).bytes == bytes)
      #expect(parse(Array(("<" + text + ">").utf8), room: count).bytes == bytes)
      #expect(unsafe writingExactBytes(count) { unsafe token.copyBytes(into: $0) } == bytes)
    }
  }

  @Test("a destination that is too small for the token is refused and not overrun", arguments: [0, 1, 31])
  func room(_ count: Int) {
    #expect(parse([UInt8](repeating: 0x61, count: 64), room: count).error == .tooLong)
    #expect(
      parse(Array("<".utf8) + [UInt8](repeating: 0x61, count: 64) + Array(">".utf8), room: count).error == .tooLong)
  }

  @Test("the fast and the general parser agree on each of the 256 bytes in each place of 32 digits")
  func everyByte() {
    for place in 0..<32 {
      for byte in UInt8.min ... .max {
        var fast = Array("0123456789abcdefABCDEF0123456789".utf8)
        fast[place] = byte
        let expected = String(decoding: [byte], as: UTF8.self).first?.hexDigitValue
        let isSkipped = byte == 0x20 || byte == 0x09
        let careful = Array("00".utf8) + fast
        let (quick, slow) = (parse(fast), parse(careful))
        if !isSkipped, !(place == 0 && byte == 0x3C), !(place == 31 && byte == 0x3E) {
          #expect((quick.bytes != nil) == (expected != nil), "byte \(byte) at \(place)")
        }
        // 34 digits use the general parser.
        #expect(slow.bytes.map { Array($0.dropFirst()) } == quick.bytes, "byte \(byte) at \(place)")
      }
    }
  }

  @Test("random texts are read as a simple model reads them")
  func model() {
    var generator = SeededGenerator.fresh()
    let alphabet = Array("0123456789abcdefABCDEF".utf8)
    for _ in 0..<3000 {
      var text = (0..<Int.random(in: 0...210, using: &generator)).map { _ in
        alphabet.randomElement(using: &generator) ?? 0
      }
      if generator.chance(20), !text.isEmpty {
        text[Int.random(in: 0..<text.count, using: &generator)] = .random(in: 0 ... .max, using: &generator)
      }
      if generator.chance(20) { text.insert(0x20, at: Int.random(in: 0...text.count, using: &generator)) }
      #expect(parse(text).bytes == modelled(text), "seed \(generator.seed), text \(text)")
    }
  }

  private func modelled(_ text: [UInt8]) -> [UInt8]? {
    let digits = text.filter { $0 != 0x20 && $0 != 0x09 }.map {
      $0 < 128 ? Character(UnicodeScalar($0)).hexDigitValue : nil
    }
    guard digits.count % 2 == 0, (2...200).contains(digits.count) else { return nil }
    var bytes: [UInt8] = []
    for index in stride(from: 0, to: digits.count, by: 2) {
      guard let high = digits[index], let low = digits[index + 1] else { return nil }
      bytes.append(UInt8(high << 4 | low))
    }
    return bytes
  }

  @Test("tokens have 1 to 100 bytes")
  func bounds() {
    #expect(TokenBytes(bytes: [] as [UInt8]) == nil)
    #expect(TokenBytes(bytes: [UInt8](repeating: 0, count: 101)) == nil)
    #expect(TokenBytes(bytes: [UInt8](repeating: 0, count: 100)) != nil)
  }

  @Test("tokens are equal when their bytes are")
  func equality() throws {
    let tokens = try Set(
      [32, 31, 33].flatMap { count in
        try [0, 1].flatMap { value in
          try (0..<2).map { _ in try #require(TokenBytes(bytes: [UInt8](repeating: value, count: count))) }
        }
      })
    #expect(tokens.count == 6)
  }
}
