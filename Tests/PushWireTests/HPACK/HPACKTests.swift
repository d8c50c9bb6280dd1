internal import PushWire
internal import Support
internal import Testing

@Suite("HPACK")
struct HPACKTests {
  /// Decodes a block to lines, and a fault to its name.
  private func decode(_ block: [UInt8], _ decoder: inout HPACKDecoder) -> [String] {
    unsafe withExactBytes(block) { block in
      var lines: [String] = []
      decoder.begin()
      let block = unsafe Span<UInt8>(_unsafeBytes: block)
      while true {
        switch decoder.next(in: block) {
        case .field(let field):
          let (name, value) = unsafe (
            String(decoding: field.name, as: UTF8.self), String(decoding: field.value, as: UTF8.self)
          )
          lines.append("\(name): \(value)")
        case .end: return lines
        case .fault(let fault): return lines + [String(describing: fault)]
        }
      }
    }
  }

  private func bytes(_ hexadecimal: String) -> [UInt8] {
    let digits = hexadecimal.filter { $0 != " " }.compactMap(\.hexDigitValue)
    return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
  }

  @Test("the requests of RFC 7541 are decoded, without and with the Huffman code", arguments: [false, true])
  func requests(isCoded: Bool) {
    let blocks =
      isCoded
      ? [
        "828684418cf1e3c2e5f23a6ba0ab90f4ff", "828684be5886a8eb10649cbf",
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
      ]
      : [
        "828684410f7777772e6578616d706c652e636f6d", "828684be58086e6f2d6361636865",
        "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
      ]
    var decoder = HPACKDecoder()
    let first = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"]
    #expect(decode(bytes(blocks[0]), &decoder) == first)
    #expect(decode(bytes(blocks[1]), &decoder) == first + ["cache-control: no-cache"])
    #expect(
      decode(bytes(blocks[2]), &decoder) == [
        ":method: GET", ":scheme: https", ":path: /index.html", ":authority: www.example.com",
        "custom-key: custom-value",
      ])
  }

  @Test("the responses of RFC 7541 are decoded with a table that evicts, without and with the Huffman code")
  func responses() {
    let plain = [
      """
      4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d54\
      6e1768747470733a2f2f7777772e6578616d706c652e636f6d
      """,
      "4803333037c1c0bf",
      """
      88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d\
      4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273\
      696f6e3d31
      """,
    ]
    let coded = [
      """
      488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97\
      c8e9ae82ae43d3
      """,
      "4883640effc1c0bf",
      """
      88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd\
      5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007
      """,
    ]
    for blocks in [plain, coded] {
      var decoder = HPACKDecoder(tableByteCount: 256)
      let rest = [
        "cache-control: private", "date: Mon, 21 Oct 2013 20:13:21 GMT", "location: https://www.example.com",
      ]
      #expect(decode(bytes(blocks[0]), &decoder) == [":status: 302"] + rest)
      #expect(decode(bytes(blocks[1]), &decoder) == [":status: 307"] + rest)
      #expect(
        decode(bytes(blocks[2]), &decoder) == [
          ":status: 200", "cache-control: private", "date: Mon, 21 Oct 2013 20:13:22 GMT",
          "location: https://www.example.com", "content-encoding: gzip",
          "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
        ])
    }
  }

  @Test(
    "what is no header block is a fault",
    arguments: [
      ("80", "index"), ("be", "index"), ("ff8080808080808001", "integer"), ("ffffffffff7f", "integer"),
      ("ff", "integer"), ("7e", "index"), ("41", "truncated"), ("0f2f0161", "index"), ("000161", "truncated"),
      ("00016105", "truncated"), ("0001610561", "truncated"), ("8820", "latecomer"), ("3fe21f", "tableSize"),
      // EOS, padding of eight ones, padding with a zero, and a code that ends early.
      ("00016184ffffffff", "huffman"), ("000161821fff", "huffman"), ("0001618118", "huffman"),
      ("00016182ffc0", "huffman"),
    ])
  func faults(block: String, fault: String) {
    var decoder = HPACKDecoder()
    #expect(decode(bytes(block), &decoder).last == fault)
  }

  @Test("an entry may take its name from one that it evicts, and one that is too large empties the table")
  func eviction() {
    var decoder = HPACKDecoder(tableByteCount: 64)
    let name = Array("abcdefgh".utf8)
    func literal(_ first: [UInt8], _ value: Int) -> [UInt8] {
      first + [UInt8(value)] + [UInt8](repeating: 0x78, count: value)
    }
    #expect(decode(literal([0x40, 8] + name, 20), &decoder).count == 1)
    #expect(decode(literal([0x7E], 22) + [0xBE], &decoder).allSatisfy { $0.hasPrefix("abcdefgh: x") })
    #expect(decode(literal([0x7E], 25), &decoder).first?.hasPrefix("abcdefgh: x") == true)
    #expect(decode([0xBE], &decoder) == ["index"])
  }

  @Test("the table's limit is announced at once, at its lowest and at its last")
  func tableLimit() {
    var encoder = HPACKEncoder()
    var decoder = HPACKDecoder()
    func block(_ value: String) -> [UInt8] {
      var output: [UInt8] = []
      encoder.begin(into: &output)
      unsafe Array(value.utf8).withUnsafeBytes {
        unsafe encoder.encode(name: Array("name".utf8), value: $0, .always, into: &output)
      }
      return output
    }
    func decoded(_ block: [UInt8]) -> [String] { decode(block, &decoder) }
    #expect(decoded(block("a")) == ["name: a"])
    #expect(block("a") == [0xBE])
    encoder.setTableLimit(0)
    encoder.setTableLimit(100)
    let resized = block("a")
    #expect(resized.prefix(3) == [0x20, 0x3F, 69])
    #expect(decoded(resized) == ["name: a"])
    encoder.setTableLimit(65_536)
    let larger = block("a")
    #expect(larger.prefix(3) == [0x3F, 0xE1, 0x1F], "no more than the default")
    #expect(decoded(larger) == ["name: a"])
  }

  @Test("random blocks are decoded as they were encoded, and random bytes never trap")
  func random() {
    var random = SeededGenerator.fresh()
    var encoder = HPACKEncoder()
    var decoder = HPACKDecoder()
    for _ in 0..<3000 {
      if random.chance(5) { encoder.setTableLimit(Int.random(in: 0...5000, using: &random)) }
      var output: [UInt8] = []
      encoder.begin(into: &output)
      var wanted: [String] = []
      for _ in 0..<Int.random(in: 0...8, using: &random) {
        let name = "x\(Int.random(in: 0..<20, using: &random))"
        let value = String(repeating: "v", count: Int.random(in: 0..<300, using: &random))
        let indexing = [HPACKEncoder.Indexing.always, .name, .never].randomElement(using: &random) ?? .never
        unsafe Array(value.utf8).withUnsafeBytes {
          unsafe encoder.encode(name: Array(name.utf8), value: $0, indexing, into: &output)
        }
        wanted.append("\(name): \(value)")
      }
      #expect(decode(output, &decoder) == wanted)
      var other = HPACKDecoder()
      _ = decode(random.bytes(Int.random(in: 0..<200, using: &random)), &other)
    }
  }
}
