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

extension String {
  /// The bytes as UTF-8; what is none becomes U+FFFD.
  init(decoding bytes: Span<UInt8>) {
    self = unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
  }
}
