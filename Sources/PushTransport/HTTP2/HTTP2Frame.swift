internal import PushWire

/// The frames of HTTP/2 (RFC 9113, section 6).
enum HTTP2Frame {
  enum Kind {
    static let data: UInt8 = 0
    static let headers: UInt8 = 1
    static let priority: UInt8 = 2
    static let reset: UInt8 = 3
    static let settings: UInt8 = 4
    static let pushPromise: UInt8 = 5
    static let ping: UInt8 = 6
    static let goAway: UInt8 = 7
    static let windowUpdate: UInt8 = 8
    static let continuation: UInt8 = 9
  }

  enum Flags {
    static let acknowledgement: UInt8 = 1
    static let endStream: UInt8 = 1
    static let endHeaders: UInt8 = 4
    static let padded: UInt8 = 8
    static let priority: UInt8 = 0x20
  }

  enum Setting {
    static let headerTableSize: UInt16 = 1
    static let enablePush: UInt16 = 2
    static let streamLimit: UInt16 = 3
    static let initialWindow: UInt16 = 4
    static let frameSize: UInt16 = 5
    static let headerListSize: UInt16 = 6
  }

  static let preface: StaticString = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
  static let headerByteCount = 9
  /// The default of SETTINGS_INITIAL_WINDOW_SIZE, and the first window of a connection.
  static let window = 65_535
  static let largestWindow = Int(Int32.max)
  /// The default of SETTINGS_MAX_FRAME_SIZE, which is also its smallest value.
  static let payloadByteCount = 16_384
  static let largestPayloadByteCount = 16_777_215

  struct Header {
    let byteCount: Int
    let kind: UInt8
    let flags: UInt8
    let streamID: Int32

    /// - Parameter offset: at least nine bytes before the end.
    @inline(__always)
    init(_ bytes: Span<UInt8>, at offset: Int) {
      let word = bytes.word(at: offset)
      byteCount = Int(word >> 8)
      kind = UInt8(truncatingIfNeeded: word)
      flags = bytes[offset + 4]
      // The first bit is reserved.
      streamID = Int32(bitPattern: bytes.word(at: offset + 5) & 0x7FFF_FFFF)
    }

    @inline(__always)
    func has(_ flag: UInt8) -> Bool { flags & flag != 0 }
  }

  /// Writes nine bytes.
  @inline(__always)
  static func write(
    _ kind: UInt8, flags: UInt8, streamID: Int32, byteCount: Int, to output: UnsafeMutableRawPointer
  ) {
    let stream = UInt32(bitPattern: streamID)
    let word = UInt64(byteCount) << 40 | UInt64(kind) << 32 | UInt64(flags) << 24 | UInt64(stream >> 8)
    unsafe output.storeBytes(of: word.bigEndian, as: UInt64.self)
    unsafe output.storeBytes(of: UInt8(truncatingIfNeeded: stream), toByteOffset: 8, as: UInt8.self)
  }
}
