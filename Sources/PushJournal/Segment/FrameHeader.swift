/// The record at the beginning of each frame; in the first frame of a segment it follows the
/// segment's header. It reveals missing, repeated and foreign frames.
///
/// | offset | bytes | |
/// |---|---|---|
/// | 0 | 1 | 1 |
/// | 1 | 8 | the journal's number, chosen at random when the journal was created |
/// | 9 | 8 | position of the frame's first record, or of the next one if it has none |
/// | 17 | 8 | everything up to this position was durable when the frame was written; 0: nothing |
/// | 25 | 8 | nothing before this position is needed any more |
/// | 33 | 1 | 1: the journal was closed properly, and this is its last frame |
struct FrameHeader: Hashable {
  var journal: UInt64
  var first: UInt64
  var durable: UInt64
  var released: UInt64
  var isClosing = false

  static let tag: UInt8 = 1
  static let payloadByteCount = 34
  /// The bytes of the record with its length and kind.
  static let byteCount = payloadByteCount + 2

  /// Writes the whole record of `byteCount` bytes.
  func write(to destination: UnsafeMutableRawPointer) {
    let prefix = unsafe RecordFormat.writePrefix(
      kind: RecordFormat.ownKind, payloadByteCount: Self.payloadByteCount, to: destination)
    let payload = unsafe destination + prefix
    unsafe payload.storeBytes(of: Self.tag, as: UInt8.self)
    unsafe payload.storeBytes(of: journal.littleEndian, toByteOffset: 1, as: UInt64.self)
    unsafe payload.storeBytes(of: first.littleEndian, toByteOffset: 9, as: UInt64.self)
    unsafe payload.storeBytes(of: durable.littleEndian, toByteOffset: 17, as: UInt64.self)
    unsafe payload.storeBytes(of: released.littleEndian, toByteOffset: 25, as: UInt64.self)
    unsafe payload.storeBytes(of: isClosing ? 1 : 0, toByteOffset: 33, as: UInt8.self)
  }

  static func read(payload: Span<UInt8>) -> FrameHeader? {
    guard payload.count == payloadByteCount, payload[0] == tag, payload[33] <= 1 else { return nil }
    let header = FrameHeader(
      journal: payload.number(at: 1),
      first: payload.number(at: 9),
      durable: payload.number(at: 17),
      released: payload.number(at: 25),
      isClosing: payload[33] == 1)
    // Positions in a forged file must not overflow when record counts are added to them.
    guard header.first >= 1, header.first <= positionLimit, header.durable <= positionLimit,
      header.released <= positionLimit
    else { return nil }
    return header
  }

  /// A journal cannot reach this position: ten million records a second would take 29,000 years.
  static let positionLimit: UInt64 = 1 << 63
}

/// The first record of a segment.
///
/// | offset | bytes | |
/// |---|---|---|
/// | 0 | 1 | 2 |
/// | 1 | 8 | "CARILLON" |
/// | 9 | 2 | version of the format: 3 |
/// | 11 | 8 | number of the segment, as in its file name |
struct SegmentHeader: Hashable {
  var version: UInt16
  var number: UInt64

  static let version: UInt16 = 3
  static let tag: UInt8 = 2
  static let payloadByteCount = 19
  static let byteCount = payloadByteCount + 2
  /// The longest first frame of a segment in bytes: both headers uncompressed, and what LZ4 adds to
  /// them.
  static let frameByteCountLimit = FrameFormat.headerByteCount + 4 + byteCount + FrameHeader.byteCount + 8
  private static let magic = UInt64(littleEndian: 0x4E4F_4C4C_4952_4143)

  func write(to destination: UnsafeMutableRawPointer) {
    let prefix = unsafe RecordFormat.writePrefix(
      kind: RecordFormat.ownKind, payloadByteCount: Self.payloadByteCount, to: destination)
    let payload = unsafe destination + prefix
    unsafe payload.storeBytes(of: Self.tag, as: UInt8.self)
    unsafe payload.storeBytes(of: Self.magic, toByteOffset: 1, as: UInt64.self)
    unsafe payload.storeBytes(of: version.littleEndian, toByteOffset: 9, as: UInt16.self)
    unsafe payload.storeBytes(of: number.littleEndian, toByteOffset: 11, as: UInt64.self)
  }

  /// Reads a header of any version. The bytes behind it are known only for this program's version.
  static func read(payload: Span<UInt8>) -> SegmentHeader? {
    guard payload.count >= 11, payload[0] == tag, payload.number(at: 1) == UInt64(littleEndian: magic) else {
      return nil
    }
    let version = payload.number(at: 9, as: UInt16.self)
    guard version == Self.version else { return SegmentHeader(version: version, number: 0) }
    guard payload.count == payloadByteCount else { return nil }
    return SegmentHeader(
      version: version, number: payload.number(at: 11))
  }
}
