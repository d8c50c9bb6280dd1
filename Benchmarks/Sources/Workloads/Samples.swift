internal import Glibc

/// The same tokens and the same payload for all workloads and machines.
enum Samples {
  /// 200 bytes.
  static let payload = Array("{\"aps\":{\"alert\":\"\(String(repeating: "x", count: 180))\"}}".utf8)

  /// Tokens of 32 bytes without gaps. They are random, like real tokens, so they compress as badly.
  static func tokens(_ count: Int) -> [UInt8] {
    var state: UInt64 = 0x9E37_79B9_7F4A_7C15
    return (0..<count * 32).map { _ in
      state ^= state << 13
      state ^= state >> 7
      state ^= state << 17
      return UInt8(truncatingIfNeeded: state >> 24)
    }
  }

  /// The same tokens in hexadecimal digits.
  static func tokenTexts(_ count: Int) -> [String] {
    let digits = Array("0123456789abcdef")
    let bytes = tokens(count)
    return (0..<count).map { index in
      String(bytes[index * 32..<(index + 1) * 32].flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
    }
  }
}

/// Memory of a fixed size.
// Sync: the memory is filled before threads share it, and not written afterwards.
@safe final class RawMemory: @unchecked Sendable {
  let bytes: UnsafeMutableRawBufferPointer

  init(byteCount: Int) {
    unsafe bytes = .allocate(byteCount: byteCount, alignment: 64)
    unsafe bytes.initializeMemory(as: UInt8.self, repeating: 0)
  }

  convenience init(_ content: [UInt8]) {
    self.init(byteCount: content.count)
    unsafe bytes.copyBytes(from: content)
  }

  deinit { unsafe bytes.deallocate() }

  var readable: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(bytes) }

  func piece(_ start: Int, _ count: Int) -> UnsafeRawBufferPointer {
    unsafe UnsafeRawBufferPointer(rebasing: bytes[start..<start + count])
  }
}

/// A file without a name. It is gone when its last user has closed it.
final class UnnamedFile {
  private let descriptor: Int32

  init(_ content: String) throws {
    var template = Array("/tmp/carillon-benchmark-XXXXXX".utf8CString)
    descriptor = unsafe mkstemp(&template)
    _ = unsafe unlink(template)
    try WorkloadFailure.check(descriptor >= 0, "no file can be made in /tmp")
    var rest = content.utf8[...]
    while !rest.isEmpty {
      let piece = Array(rest.prefix(1 << 20))
      let written = unsafe piece.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
      try WorkloadFailure.check(written > 0, "a file in /tmp cannot be written")
      rest = rest.dropFirst(written)
    }
  }

  deinit { _ = close(descriptor) }

  /// Opening this path reads the file from its beginning.
  var path: String { "/proc/self/fd/\(descriptor)" }
}
