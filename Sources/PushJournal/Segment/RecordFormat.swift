/// A record in the decompressed stream: payload length, kind, payload. The length is LEB128: seven
/// bits a byte, low bits first, at most four bytes.
enum RecordFormat {
  /// The kind of the journal's own records. Callers use 1…255.
  static let ownKind: UInt8 = 0
  static let prefixByteCountLimit = 5

  static func prefixByteCount(payloadByteCount: Int) -> Int {
    switch payloadByteCount {
    case ..<0x80: 2
    case ..<0x4000: 3
    case ..<0x20_0000: 4
    default: 5
    }
  }

  /// Writes length and kind, for which the caller has reserved `prefixByteCount(payloadByteCount:)`
  /// bytes. Returns that number.
  static func writePrefix(kind: UInt8, payloadByteCount: Int, to destination: UnsafeMutableRawPointer) -> Int {
    var rest = payloadByteCount
    var count = 0
    while rest >= 0x80 {
      unsafe destination.storeBytes(of: UInt8(truncatingIfNeeded: rest) | 0x80, toByteOffset: count, as: UInt8.self)
      rest >>= 7
      count += 1
    }
    unsafe destination.storeBytes(of: UInt8(truncatingIfNeeded: rest), toByteOffset: count, as: UInt8.self)
    unsafe destination.storeBytes(of: kind, toByteOffset: count + 1, as: UInt8.self)
    return count + 2
  }

  struct Record {
    let kind: UInt8
    let payload: Range<Int>
  }

  /// The record that begins at `offset`; nil if no whole record does.
  @inline(__always)
  static func read(_ bytes: Span<UInt8>, at offset: Int) -> Record? {
    var position = offset
    var length = 0
    var shift = 0
    while true {
      guard position < bytes.count, shift <= 21 else { return nil }
      let byte = bytes[position]
      position += 1
      length |= Int(byte & 0x7F) << shift
      if byte < 0x80 { break }
      shift += 7
    }
    guard position < bytes.count, length <= bytes.count - position - 1 else { return nil }
    let kind = bytes[position]
    return Record(kind: kind, payload: (position + 1)..<(position + 1 + length))
  }
}

/// Numbers with their last byte first, as the journal has them. An offset out of bounds is a
/// programming error, and traps.
extension Span<UInt8> {
  func number<Number: FixedWidthInteger & BitwiseCopyable>(at offset: Int, as type: Number.Type = Number.self) -> Number
  {
    unsafe Number(littleEndian: bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: Number.self))
  }
}
