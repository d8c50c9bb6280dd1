/// HTTP/2 written and read byte by byte after RFC 9113 and RFC 7541, independent of nghttp2, which
/// the service uses, and of our client. Fields are literals without Huffman code.
enum HTTP2Wire {
  static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
  static let settings = frame(4, 0, 0, [])
  static let settingsAcknowledgement = frame(4, 1, 0, [])

  static func frame(_ type: UInt8, _ flags: UInt8, _ stream: Int32, _ payload: [UInt8]) -> [UInt8] {
    let count = payload.count
    return [UInt8(count >> 16), UInt8(count >> 8 & 255), UInt8(count & 255), type, flags] + word(UInt32(stream))
      + payload
  }

  static func word(_ value: UInt32) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * $0)) } }

  static func block(_ fields: [(String, String)]) -> [UInt8] {
    fields.flatMap { name, value in [0] + string(name) + string(value) }
  }

  private static func string(_ text: String) -> [UInt8] {
    let bytes = Array(text.utf8)
    if bytes.count < 127 { return [UInt8(bytes.count)] + bytes }
    var count: [UInt8] = [127]
    var rest = bytes.count - 127
    while rest >= 128 {
      count.append(UInt8(rest & 127) | 128)
      rest >>= 7
    }
    return count + [UInt8(rest)] + bytes
  }

  /// A complete request: HEADERS, and DATA unless the body is empty.
  static func request(_ stream: Int32, _ fields: [(String, String)], body: [UInt8]) -> [UInt8] {
    if body.isEmpty { return frame(1, 5, stream, block(fields)) }
    var bytes = frame(1, 4, stream, block(fields))
    var rest = body[...]
    while !rest.isEmpty {
      let piece = Array(rest.prefix(16_384))
      rest = rest.dropFirst(piece.count)
      bytes += frame(0, rest.isEmpty ? 1 : 0, stream, piece)
    }
    return bytes
  }

  struct Frame: Hashable {
    var type: UInt8
    var flags: UInt8
    var stream: Int32
    var payload: [UInt8]

    var text: String { String(decoding: payload, as: UTF8.self) }

    /// Four bytes of the payload, most significant first.
    func word(at offset: Int) -> UInt32 {
      guard payload.count >= offset + 4 else { return 0 }
      return payload[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) }
    }
  }

  /// Removes the complete frames at the beginning of `bytes` and returns them.
  static func take(_ bytes: inout [UInt8]) -> [Frame] {
    var frames: [Frame] = []
    var offset = 0
    while bytes.count - offset >= 9 {
      let count = Int(bytes[offset]) << 16 | Int(bytes[offset + 1]) << 8 | Int(bytes[offset + 2])
      guard bytes.count - offset >= 9 + count else { break }
      let stream = bytes[offset + 5..<offset + 9].reduce(0) { $0 << 8 | UInt32($1) } & 0x7FFF_FFFF
      frames.append(
        Frame(
          type: bytes[offset + 3], flags: bytes[offset + 4], stream: Int32(stream),
          payload: Array(bytes[offset + 9..<offset + 9 + count])))
      offset += 9 + count
    }
    bytes.removeFirst(offset)
    return frames
  }
}
