internal import PushWire

/// Writes the fields of a record one after another, in little-endian order, into the journal's
/// memory.
@safe struct RecordWriter: ~Copyable {
  private let memory: UnsafeMutableRawBufferPointer
  private(set) var byteCount = 0

  /// - Parameter memory: has the record's exact length. Writing more is a programming error.
  init(_ memory: UnsafeMutableRawBufferPointer) { unsafe self.memory = unsafe memory }

  mutating func write<Number: FixedWidthInteger>(_ number: Number) {
    unsafe memory.storeBytes(of: number.littleEndian, toByteOffset: byteCount, as: Number.self)
    byteCount += MemoryLayout<Number>.size
  }

  mutating func write(_ range: Range<UInt64>) {
    write(range.lowerBound)
    write(range.upperBound)
  }

  mutating func write(_ flag: Bool) { write(flag ? 1 as UInt8 : 0) }

  /// Writes bytes without their length.
  mutating func write(raw bytes: UnsafeRawBufferPointer) {
    guard let source = bytes.baseAddress, bytes.count > 0 else { return }
    let destination = unsafe UnsafeMutableRawBufferPointer(rebasing: memory[byteCount..<(byteCount + bytes.count)])
    unsafe destination.copyMemory(from: UnsafeRawBufferPointer(start: source, count: bytes.count))
    byteCount += bytes.count
  }

  /// Writes bytes after their length in 32 bits.
  mutating func write(_ bytes: [UInt8]) {
    write(UInt32(truncatingIfNeeded: bytes.count))
    unsafe bytes.withUnsafeBytes { unsafe write(raw: $0) }
  }

  static func byteCount(_ bytes: [UInt8]) -> Int { 4 + bytes.count }
}

/// Reads such fields. The journal's checksums protect the bytes, but do not show who wrote them, so
/// every length is checked.
struct RecordReader: ~Copyable, ~Escapable {
  private let memory: Span<UInt8>
  private(set) var position = 0

  @_lifetime(copy memory)
  init(_ memory: Span<UInt8>) { self.memory = memory }

  var remaining: Int { memory.count - position }

  mutating func read<Number: FixedWidthInteger & BitwiseCopyable>(
    _ type: Number.Type = Number.self
  ) throws(RecordError) -> Number {
    guard remaining >= MemoryLayout<Number>.size else { throw .tooShort }
    let value = unsafe Number(
      littleEndian: memory.bytes.unsafeLoadUnaligned(fromByteOffset: position, as: Number.self))
    position += MemoryLayout<Number>.size
    return value
  }

  mutating func readFlag() throws(RecordError) -> Bool { try read(UInt8.self) != 0 }

  /// Far enough below the limits of `Int` that sums of such numbers cannot overflow.
  static let countLimit = 1 << 48

  /// A number of notifications.
  mutating func readCount() throws(RecordError) -> Int {
    let value = try read(UInt64.self)
    guard value <= UInt64(Self.countLimit) else { throw .outOfRange }
    return Int(value)
  }

  /// A place in a file, in bytes or lines. Far enough below the limits of `Int` that counting on
  /// from it cannot overflow.
  mutating func readPlace() throws(RecordError) -> UInt64 {
    let value = try read(UInt64.self)
    guard value < 1 << 62 else { throw .outOfRange }
    return value
  }

  /// A range of ring positions.
  mutating func readRange() throws(RecordError) -> Range<UInt64> {
    let from = try read(UInt64.self)
    let to = try read(UInt64.self)
    guard from <= to, to < 1 << 62 else { throw .outOfRange }
    return from..<to
  }

  @_lifetime(copy self)
  mutating func readRaw(_ count: Int) throws(RecordError) -> Span<UInt8> {
    guard count >= 0, remaining >= count else { throw .tooShort }
    defer { position += count }
    return memory.extracting(position..<position + count)
  }

  mutating func readBytes() throws(RecordError) -> [UInt8] {
    let count = Int(try read(UInt32.self))
    return Array(try readRaw(count))
  }

  mutating func readString() throws(RecordError) -> String { String(decoding: try readBytes(), as: UTF8.self) }

  /// Throws if bytes are left over.
  consuming func finish() throws(RecordError) {
    guard remaining == 0 else { throw .tooLong }
  }
}

/// Why this program cannot have written a record.
enum RecordError: Error, Hashable, Sendable {
  case tooShort, tooLong, outOfRange
  case unknownKind(UInt8)
}
