internal import CNGHTTP2
internal import PushWire
internal import Support
internal import Testing

/// nghttp2's decoder, for comparison.
@safe
final class HPACKOracleDecoder {
  private var inflater: OpaquePointer?

  init() { unsafe nghttp2_hd_inflate_new(&inflater) }

  deinit { unsafe nghttp2_hd_inflate_del(inflater) }

  func setTableLimit(_ byteCount: Int) { _ = unsafe nghttp2_hd_inflate_change_table_size(inflater, byteCount) }

  /// Nil: it is no header block.
  func decode(_ block: [UInt8]) -> [String]? {
    var lines: [String] = []
    var offset = 0
    return unsafe block.withUnsafeBufferPointer { block in
      while true {
        var field = unsafe nghttp2_nv()
        var flags: Int32 = 0
        let start = unsafe block.baseAddress.map { unsafe $0 + offset }
        let count = unsafe nghttp2_hd_inflate_hd2(inflater, &field, &flags, start, block.count - offset, 1)
        guard count >= 0 else { return nil }
        offset += count
        if flags & Int32(NGHTTP2_HD_INFLATE_EMIT.rawValue) != 0 {
          let name = unsafe UnsafeBufferPointer(start: field.name, count: field.namelen)
          let value = unsafe UnsafeBufferPointer(start: field.value, count: field.valuelen)
          unsafe lines.append("\(String(decoding: name, as: UTF8.self)): \(String(decoding: value, as: UTF8.self))")
        }
        if flags & Int32(NGHTTP2_HD_INFLATE_FINAL.rawValue) != 0 {
          _ = unsafe nghttp2_hd_inflate_end_headers(inflater)
          return lines
        }
        if flags & Int32(NGHTTP2_HD_INFLATE_EMIT.rawValue) == 0, offset >= block.count { return lines }
      }
    }
  }
}

/// nghttp2's encoder, for comparison.
@safe
final class HPACKOracleEncoder {
  private var deflater: OpaquePointer?

  init() { unsafe nghttp2_hd_deflate_new(&deflater, 4096) }

  deinit { unsafe nghttp2_hd_deflate_del(deflater) }

  func setTableLimit(_ byteCount: Int) { _ = unsafe nghttp2_hd_deflate_change_table_size(deflater, byteCount) }

  func encode(_ fields: [HPACKOracleTests.Field]) -> [UInt8] {
    var text: [UInt8] = fields.flatMap { $0.name + $0.value } + [0]
    return unsafe text.withUnsafeMutableBufferPointer { text -> [UInt8] in
      var offset = 0
      let list = unsafe fields.map { field -> nghttp2_nv in
        let name = unsafe text.baseAddress.map { unsafe $0 + offset }
        let value = unsafe text.baseAddress.map { unsafe $0 + offset + field.name.count }
        offset += field.name.count + field.value.count
        let flags = field.isSecret ? UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue) : 0
        return unsafe nghttp2_nv(
          name: name, value: value, namelen: field.name.count, valuelen: field.value.count, flags: flags)
      }
      var output = [UInt8](repeating: 0, count: unsafe nghttp2_hd_deflate_bound(deflater, list, list.count))
      let count = unsafe nghttp2_hd_deflate_hd(deflater, &output, output.count, list, list.count)
      return Array(output.prefix(max(0, count)))
    }
  }
}

@Suite("HPACK beside nghttp2")
struct HPACKOracleTests {
  struct Field {
    var name: [UInt8]
    var value: [UInt8]
    var isSecret: Bool

    var line: String { "\(String(decoding: name, as: UTF8.self)): \(String(decoding: value, as: UTF8.self))" }

    private static let names = [
      ":status", "apns-id", "apns-unique-id", "date", "content-length", "content-type", "retry-after", "server", "x",
      "apns-topic", ":path", "authorization",
    ]

    init(name: [UInt8], value: [UInt8], isSecret: Bool) {
      (self.name, self.value, self.isSecret) = (name, value, isSecret)
    }

    init(_ random: inout SeededGenerator) {
      name = Array((Self.names.randomElement(using: &random) ?? "x").utf8)
      let count = Int.random(in: 0..<([1, 8, 60, 700].randomElement(using: &random) ?? 8), using: &random)
      // Some values repeat.
      switch Int.random(in: 0..<3, using: &random) {
      case 0: value = Array("\(Int.random(in: 0..<9, using: &random))".utf8)
      case 1: value = (0..<count).map { _ in UInt8.random(in: 0x20...0x7E, using: &random) }
      default: value = random.bytes(count)
      }
      isSecret = random.chance(30)
    }
  }

  static func decode(_ block: [UInt8], _ decoder: inout HPACKDecoder) -> [String]? {
    unsafe withExactBytes(block) { block in
      var lines: [String] = []
      decoder.begin()
      let block = unsafe Span<UInt8>(_unsafeBytes: block)
      while true {
        switch decoder.next(in: block) {
        case .field(let field):
          unsafe lines.append(
            "\(String(decoding: field.name, as: UTF8.self)): \(String(decoding: field.value, as: UTF8.self))")
        case .end: return lines
        case .fault: return nil
        }
      }
    }
  }

  private static let connections = 200
  private static let blocks = 100

  @Test("what nghttp2 encodes, both decoders read alike, with any limit of the table")
  func decoding() {
    var random = SeededGenerator.fresh()
    for _ in 0..<Self.connections {
      let (encoder, oracle) = (HPACKOracleEncoder(), HPACKOracleDecoder())
      var decoder = HPACKDecoder()
      for _ in 0..<Self.blocks {
        if random.chance(5) { encoder.setTableLimit(Int.random(in: 0...4096, using: &random)) }
        let fields = (0..<Int.random(in: 0...10, using: &random)).map { _ in Field(&random) }
        let block = encoder.encode(fields)
        let lines = fields.map(\.line)
        guard Self.decode(block, &decoder) == lines, oracle.decode(block) == lines else {
          Issue.record("\(lines) from \(block)")
          return
        }
      }
    }
  }

  @Test("what we encode, nghttp2 reads alike, with any limit of the table")
  func encoding() {
    var random = SeededGenerator.fresh()
    for _ in 0..<Self.connections {
      let oracle = HPACKOracleDecoder()
      var encoder = HPACKEncoder()
      for _ in 0..<Self.blocks {
        if random.chance(5) {
          let limit = Int.random(in: 0...6000, using: &random)
          oracle.setTableLimit(limit)
          encoder.setTableLimit(limit)
        }
        let fields = (0..<Int.random(in: 0...10, using: &random)).map { _ in Field(&random) }
        var block: [UInt8] = []
        encoder.begin(into: &block)
        for field in fields {
          unsafe field.value.withUnsafeBytes {
            unsafe encoder.encode(
              name: field.name, value: $0, field.isSecret ? .never : random.chance(50) ? .always : .name, into: &block)
          }
        }
        guard oracle.decode(block) == fields.map(\.line) else {
          Issue.record("\(fields.map(\.line)) from \(block)")
          return
        }
      }
    }
  }

  @Test("of damaged and random blocks, both decoders read the same fields, or refuse them")
  func damaged() {
    var random = SeededGenerator.fresh()
    for _ in 0..<Self.connections * 20 {
      let (encoder, oracle) = (HPACKOracleEncoder(), HPACKOracleDecoder())
      var decoder = HPACKDecoder()
      for _ in 0..<10 {
        let fields = (0..<Int.random(in: 0...6, using: &random)).map { _ in Field(&random) }
        var block = encoder.encode(fields)
        if random.chance(20) { block = random.bytes(Int.random(in: 0..<60, using: &random)) }
        for _ in 0..<Int.random(in: 0...2, using: &random) where !block.isEmpty {
          let place = Int.random(in: 0..<block.count, using: &random)
          switch Int.random(in: 0..<3, using: &random) {
          case 0: block[place] = UInt8(truncatingIfNeeded: random.next())
          case 1: block.removeSubrange(place...)
          default: block.insert(UInt8(truncatingIfNeeded: random.next()), at: place)
          }
        }
        let (ours, theirs) = (Self.decode(block, &decoder), oracle.decode(block))
        guard ours == theirs else {
          Issue.record("\(String(describing: ours)) and \(String(describing: theirs)) from \(block)")
          return
        }
        guard ours != nil else { break }
      }
    }
  }
}
