/// What a `Span` of bytes lacks, and text has.
extension Span<UInt8> {
  func contains(_ byte: UInt8) -> Bool {
    for index in indices where self[index] == byte { return true }
    return false
  }

  func allSatisfy(_ condition: (UInt8) -> Bool) -> Bool {
    for index in indices where !condition(self[index]) { return false }
    return true
  }

  func equals(_ text: StaticString) -> Bool {
    guard count == text.utf8CodeUnitCount else { return false }
    for index in indices where unsafe self[index] != text.utf8Start[index] { return false }
    return true
  }

  func equals(_ text: String) -> Bool {
    guard count == text.utf8.count else { return false }
    var index = 0
    for byte in text.utf8 {
      guard self[index] == byte else { return false }
      index += 1
    }
    return true
  }
}

/// Numbers with their first byte first, as both protocols have them. An offset out of bounds is a
/// programming error, and traps.
extension Span<UInt8> {
  @inlinable
  package func half(at offset: Int) -> UInt16 {
    unsafe UInt16(bigEndian: bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt16.self))
  }

  @inlinable
  package func word(at offset: Int) -> UInt32 {
    unsafe UInt32(bigEndian: bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt32.self))
  }
}

extension [UInt8] {
  package init(_ bytes: Span<UInt8>) { self = unsafe bytes.withUnsafeBytes { unsafe Array($0) } }

  package mutating func append(_ bytes: Span<UInt8>) { unsafe bytes.withUnsafeBytes { unsafe append(contentsOf: $0) } }
}

extension String {
  /// The bytes as UTF-8; what is none becomes U+FFFD.
  init(decoding bytes: Span<UInt8>) {
    self = unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
  }
}
