@testable internal import PushTransport

/// Frames of a peer, byte by byte.
enum Peer {
  struct Frame {
    let kind: UInt8
    let flags: UInt8
    let streamID: Int32
    let payload: [UInt8]
  }

  static func frame(_ kind: UInt8, _ flags: UInt8 = 0, _ stream: Int32 = 0, _ payload: [UInt8] = []) -> [UInt8] {
    let length = Array(word(UInt32(payload.count)).dropFirst())
    return length + [kind, flags] + word(UInt32(stream)) + payload
  }

  static func settings(_ settings: (UInt8, UInt32)...) -> [UInt8] {
    frame(4, 0, 0, settings.flatMap { [0, $0.0] + word($0.1) })
  }

  static func headers(_ stream: Int32, _ block: [UInt8], flags: UInt8 = 5) -> [UInt8] {
    frame(1, flags, stream, block)
  }

  /// A literal field without an index.
  static func field(_ name: String, _ value: String) -> [UInt8] {
    [0, UInt8(name.utf8.count)] + Array(name.utf8) + [UInt8(value.utf8.count)] + Array(value.utf8)
  }

  static let ok: [UInt8] = [0x88]

  static func word(_ value: UInt32) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * $0)) } }

  /// The frames that bytes consist of.
  static func frames(_ bytes: [UInt8]) -> [Frame] {
    var frames: [Frame] = []
    var rest = bytes[...]
    while rest.count >= HTTP2Frame.headerByteCount {
      let header = Array(rest.prefix(HTTP2Frame.headerByteCount))
      let count = Int(header[0]) << 16 | Int(header[1]) << 8 | Int(header[2])
      let stream = header[5...].reduce(Int32(0)) { $0 << 8 | Int32($1) }
      rest = rest.dropFirst(HTTP2Frame.headerByteCount)
      frames.append(Frame(kind: header[3], flags: header[4], streamID: stream, payload: Array(rest.prefix(count))))
      rest = rest.dropFirst(count)
    }
    return frames
  }
}
