internal import COpenSSL

/// OpenSSL's error queue, which belongs to the thread. It is cleared before a call whose errors are
/// read, and emptied after a failure.
enum OpenSSLErrors {
  private static let hasStarted = OPENSSL_init_ssl(0, nil) == 1

  /// OpenSSL starts itself with the first call that needs it, but reads keys and certificates
  /// without looking whether it could, and crashes then.
  static func start() throws(CredentialError) {
    guard hasStarted else { throw .broken("it could not start: \(take())") }
  }

  static func clear() { ERR_clear_error() }

  /// The library and reason of the oldest error in the queue, or nil if it is empty.
  static func first() -> (library: Int32, reason: Int32)? {
    let code = ERR_peek_error()
    return code == 0 ? nil : (ERR_GET_LIB(code), ERR_GET_REASON(code))
  }

  /// Whether any error in the queue has this reason; leaves the queue empty.
  static func takeContains(library: Int32, reasons: [Int32]) -> Bool {
    var found = false
    while true {
      let code = ERR_get_error()
      if code == 0 { return found }
      if ERR_GET_LIB(code) == library, reasons.contains(ERR_GET_REASON(code)) { found = true }
    }
  }

  /// The reasons in the queue, oldest first and each one once. Empties the queue.
  static func take() -> String {
    var reasons: [String] = []
    while true {
      let code = ERR_get_error()
      if code == 0 { break }
      let reason = unsafe ERR_reason_error_string(code).map { unsafe String(cString: $0) } ?? "error \(code)"
      if !reasons.contains(reason) { reasons.append(reason) }
    }
    return reasons.isEmpty ? "no reason given" : reasons.joined(separator: "; ")
  }
}

/// Lends bytes to OpenSSL's reading functions.
///
/// The BIO refers to the bytes and is freed when the body returns.
func withMemoryBIO<R>(reading bytes: [UInt8], _ body: (OpaquePointer) throws -> R) rethrows -> R? {
  try unsafe bytes.withUnsafeBytes { raw in
    guard let bio = unsafe BIO_new_mem_buf(raw.baseAddress, Int32(clamping: raw.count)) else { return nil }
    defer { unsafe BIO_free(bio) }
    return try unsafe body(bio)
  }
}

/// The bytes that `body` writes into a memory BIO; nil if it returns false.
func bytesWritten(_ body: (OpaquePointer) -> Bool) -> [UInt8]? {
  guard let bio = unsafe BIO_new(BIO_s_mem()) else { return nil }
  defer { unsafe BIO_free(bio) }
  guard unsafe body(bio) else { return nil }
  var start: UnsafePointer<UInt8>?
  let count = unsafe carillon_bio_bytes(bio, &start)
  guard let start = unsafe start, count > 0 else { return [] }
  return unsafe Array(UnsafeBufferPointer(start: start, count: count))
}
