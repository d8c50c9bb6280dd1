internal import COpenSSL

/// Message digests.
package enum Digest {
  @safe private struct Algorithm: @unchecked Sendable {
    // Sync: OpenSSL's algorithms do not change.
    let pointer: OpaquePointer?
  }

  /// Found once: with `EVP_sha256()` OpenSSL looks for it at each digest, which costs as much as
  /// the digest of a notification.
  private static let algorithm = unsafe Algorithm(pointer: EVP_MD_fetch(nil, "SHA256", nil))

  /// The SHA-256 of data that arrives in pieces.
  @safe package final class SHA256 {
    private let context: OpaquePointer?

    package init() {
      unsafe context = EVP_MD_CTX_new()
      let begun = unsafe EVP_DigestInit_ex(context, Digest.algorithm.pointer, nil)
      precondition(begun == 1, "SHA-256 is part of every OpenSSL")
    }

    deinit { unsafe EVP_MD_CTX_free(context) }

    package func update(_ bytes: UnsafeRawBufferPointer) {
      let done = unsafe EVP_DigestUpdate(context, bytes.baseAddress, bytes.count)
      precondition(done == 1, "SHA-256 of bytes in memory cannot fail")
    }

    /// Returns the 32 bytes of the digest. Nothing can be added afterwards.
    package func finish() -> [UInt8] {
      unsafe [UInt8](unsafeUninitializedCapacity: 32) { digest, count in
        var written: UInt32 = 0
        let done = unsafe EVP_DigestFinal_ex(context, digest.baseAddress, &written)
        precondition(done == 1 && written == 32, "SHA-256 of bytes in memory cannot fail, and ends once")
        count = 32
      }
    }
  }

  /// The SHA-256 of `bytes`: 32 bytes.
  package static func sha256(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
    unsafe [UInt8](unsafeUninitializedCapacity: 32) { digest, count in
      var written: UInt32 = 0
      let done = unsafe EVP_Digest(bytes.baseAddress, bytes.count, digest.baseAddress, &written, algorithm.pointer, nil)
      precondition(done == 1 && written == 32, "SHA-256 is part of every OpenSSL")
      count = 32
    }
  }

  /// The first 16 bytes of the SHA-256 of few bytes, without an allocation.
  static func shortSHA256(_ bytes: UnsafeRawBufferPointer) -> (high: UInt64, low: UInt64) {
    unsafe withUnsafeTemporaryAllocation(byteCount: 32, alignment: 8) { digest in
      unsafe carillon_sha256(bytes.baseAddress, bytes.count, digest.baseAddress)
      return unsafe (
        UInt64(bigEndian: digest.loadUnaligned(as: UInt64.self)),
        UInt64(bigEndian: digest.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
      )
    }
  }

  /// The SHA-256 of `bytes`: 32 bytes.
  package static func sha256(_ bytes: [UInt8]) -> [UInt8] {
    unsafe bytes.withUnsafeBytes { unsafe sha256($0) }
  }

  /// `bytes` in lower-case hexadecimal.
  package static func hexadecimal(_ bytes: some Collection<UInt8>) -> String {
    let digits = Array("0123456789abcdef".utf8)
    var text: [UInt8] = []
    text.reserveCapacity(bytes.count * 2)
    for byte in bytes {
      text.append(digits[Int(byte >> 4)])
      text.append(digits[Int(byte & 15)])
    }
    return String(decoding: text, as: UTF8.self)
  }
}
