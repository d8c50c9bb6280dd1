internal import Glibc

/// What several users of files need of the operating system.
package enum SystemCall {
  /// The system's text for an `errno`.
  package static func reason(_ code: Int32) -> String { unsafe String(cString: strerror(code)) }

  /// Writes all of `bytes`. Returns 0, or the `errno` of the failure.
  package static func write(_ bytes: borrowing [UInt8], to descriptor: Int32) -> Int32 {
    unsafe bytes.withUnsafeBytes { bytes in
      var rest = unsafe bytes[...]
      while unsafe !rest.isEmpty {
        let count = unsafe Glibc.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { return errno }
        unsafe rest = rest.dropFirst(count)
      }
      return 0
    }
  }

  /// The four or sixteen bytes of an IP address; nil for any other text.
  static func addressBytes(_ text: String) -> [UInt8]? {
    var bytes = [UInt8](repeating: 0, count: 16)
    if unsafe inet_pton(AF_INET, text, &bytes) == 1 { return Array(bytes[..<4]) }
    return unsafe inet_pton(AF_INET6, text, &bytes) == 1 ? bytes : nil
  }
}
