/// A device token, which identifies one app on one device: 1 to 100 opaque bytes, in practice 32.
/// Its text form is lower-case hexadecimal.
package struct TokenBytes: Hashable, Sendable {
  /// The protocol allows "up to 100 bytes".
  package static let byteCountLimit = 100
  /// Almost all tokens have so many.
  package static let usualByteCount = 32

  /// A token of 32 bytes is stored in the value itself, so a set of millions of tokens allocates
  /// nothing per element.
  private enum Storage: Hashable, Sendable {
    case words(UInt64, UInt64, UInt64, UInt64)
    case bytes([UInt8])
  }

  private let storage: Storage

  /// Nil if there are no bytes, or more than 100.
  package init?(bytes: some Collection<UInt8>) {
    guard (1...Self.byteCountLimit).contains(bytes.count) else { return nil }
    self = unsafe Array(bytes).withUnsafeBytes { unsafe TokenBytes(copying: $0) }
  }

  /// Copies the bytes. Nil if there are none, or more than 100.
  package init?(bytes: Span<UInt8>) {
    guard (1...Self.byteCountLimit).contains(bytes.count) else { return nil }
    self = unsafe bytes.withUnsafeBytes { unsafe TokenBytes(copying: $0) }
  }

  /// Copies the bytes. Nil if there are none, or more than 100.
  package init?(bytes: UnsafeRawBufferPointer) {
    guard (1...Self.byteCountLimit).contains(bytes.count) else { return nil }
    unsafe self.init(copying: bytes)
  }

  /// Reads hexadecimal digits of either case. Spaces and tabs anywhere and one pair of `<>` around
  /// the text are ignored, as in `<0a1b2c3d 4e5f…>`.
  package init(parsing text: String) throws(DeviceTokenError) {
    let result = unsafe withUnsafeTemporaryAllocation(byteCount: Self.byteCountLimit, alignment: 8) { scratch in
      var text = text
      return text.withUTF8 { utf8 -> Swift.Result<TokenBytes, DeviceTokenError> in
        do throws(DeviceTokenError) {
          let count = try unsafe Self.parse(UnsafeRawBufferPointer(utf8), into: scratch)
          return unsafe .success(TokenBytes(copying: UnsafeRawBufferPointer(rebasing: scratch[..<count])))
        } catch { return .failure(error) }
      }
    }
    self = try result.get()
  }

  /// The caller has checked that there are 1…100 bytes.
  private init(copying bytes: UnsafeRawBufferPointer) {
    if bytes.count == 32 {
      storage = unsafe .words(
        bytes.loadUnaligned(as: UInt64.self), bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self),
        bytes.loadUnaligned(fromByteOffset: 16, as: UInt64.self),
        bytes.loadUnaligned(fromByteOffset: 24, as: UInt64.self))
    } else {
      storage = unsafe .bytes(Array(bytes))
    }
  }

  /// The size of the token in bytes: 1…100.
  package var byteCount: Int {
    switch storage {
    case .words: 32
    case .bytes(let bytes): bytes.count
    }
  }

  package func withUnsafeBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
    switch storage {
    case .words(let first, let second, let third, let fourth):
      let words = (first, second, third, fourth)
      return try unsafe Swift.withUnsafeBytes(of: words) { try unsafe body($0) }
    case .bytes(let bytes): return try unsafe bytes.withUnsafeBytes { try unsafe body($0) }
    }
  }

  /// Copies the bytes to the beginning of `destination` and returns their number. Not generic, so
  /// calls from another module stay cheap.
  package func copyBytes(into destination: UnsafeMutableRawBufferPointer) -> Int {
    unsafe withUnsafeBytes { bytes in
      precondition(destination.count >= bytes.count, "the destination is smaller than the token")
      unsafe destination.copyMemory(from: bytes)
      return bytes.count
    }
  }

  package var bytes: [UInt8] { unsafe withUnsafeBytes { unsafe Array($0) } }
}

extension TokenBytes: CustomStringConvertible {
  /// Lower-case hexadecimal digits, without spaces.
  package var description: String {
    unsafe withUnsafeBytes { bytes in
      unsafe String(unsafeUninitializedCapacity: bytes.count * 2) { digits in
        for index in 0..<bytes.count {
          let byte = unsafe bytes[index]
          unsafe digits[index * 2] = Self.digit(byte >> 4)
          unsafe digits[index * 2 + 1] = Self.digit(byte & 15)
        }
        return bytes.count * 2
      }
    }
  }

  private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x61 + value - 10 }
}

/// Why a text is not a device token.
package enum DeviceTokenError: Error, Hashable, Sendable {
  /// The text has no digits.
  case empty
  /// A character is not a digit, a space or an enclosing `<>`. The offset is in bytes, from 0.
  case notHexadecimal(offset: Int)
  /// The last byte has only one digit.
  case oddDigits
  /// The token has more than 100 bytes, or more than the destination has room for.
  case tooLong
}

extension DeviceTokenError: CustomStringConvertible {
  /// A sentence that does not contain the token.
  package var description: String {
    switch self {
    case .empty: "The device token is empty."
    case .notHexadecimal(let offset):
      "The device token has a character at position \(offset + 1) that is not a hexadecimal digit."
    case .oddDigits: "The device token has an odd number of hexadecimal digits, so it seems to be cut off."
    case .tooLong: "The device token is longer than \(TokenBytes.byteCountLimit) bytes."
    }
  }
}
