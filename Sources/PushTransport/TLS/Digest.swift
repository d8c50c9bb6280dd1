internal import COpenSSL

/// Message digests.
package enum Digest {
  /// The SHA-256 of data that arrives in pieces.
  @safe package final class SHA256 {
    private var context = SHA256_CTX()

    package init() { unsafe carillon_sha256_begin(&context) }

    package func update(_ bytes: UnsafeRawBufferPointer) {
      unsafe carillon_sha256_add(&context, bytes.baseAddress, bytes.count)
    }

    /// Returns the 32 bytes of the digest. Nothing can be added afterwards.
    package func finish() -> [UInt8] {
      unsafe [UInt8](unsafeUninitializedCapacity: 32) { digest, count in
        unsafe carillon_sha256_end(&context, digest.baseAddress)
        count = 32
      }
    }
  }

  /// The AES-128-GMAC (NIST SP 800-38D) of data that arrives in pieces, with a nonce of zeros: so a
  /// key is for one text. It takes a seventh of the time of SHA-256. Who does not know the key
  /// cannot make two texts that have the same.
  @safe package final class GMAC {
    package static let keyByteCount = 16

    private let context: OpaquePointer
    private var isSound: Bool

    /// - Parameter key: of ``keyByteCount`` bytes.
    package init?(key: [UInt8]) {
      guard key.count == Self.keyByteCount, let context = unsafe EVP_CIPHER_CTX_new() else { return nil }
      unsafe self.context = context
      isSound =
        unsafe EVP_EncryptInit_ex(context, EVP_aes_128_gcm(), nil, key, [UInt8](repeating: 0, count: 12)) == 1
    }

    deinit { unsafe EVP_CIPHER_CTX_free(context) }

    /// - Parameter bytes: less than 2 GiB; with more there is no code.
    package func update(_ bytes: UnsafeRawBufferPointer) {
      guard let byteCount = Int32(exactly: bytes.count) else { return isSound = false }
      var count: Int32 = 0
      let base = unsafe bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
      isSound = unsafe isSound && EVP_EncryptUpdate(context, nil, &count, base, byteCount) == 1
    }

    /// Returns the 16 bytes; nil if OpenSSL has failed. Nothing can be added afterwards.
    package func finish() -> [UInt8]? {
      var (code, count) = ([UInt8](repeating: 0, count: 16), Int32(0))
      let isWhole =
        unsafe isSound && EVP_EncryptFinal_ex(context, &code, &count) == 1
        && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, Int32(code.count), &code) == 1
      return isWhole ? code : nil
    }
  }

  /// The SHA-256 of `bytes`: 32 bytes.
  package static func sha256(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
    unsafe [UInt8](unsafeUninitializedCapacity: 32) { digest, count in
      unsafe carillon_sha256(bytes.baseAddress, bytes.count, digest.baseAddress)
      count = 32
    }
  }

  /// The HMAC-SHA256 of `bytes` (RFC 2104): 32 bytes. Nil if OpenSSL has failed.
  package static func hmacSHA256(_ bytes: [UInt8], key: [UInt8]) -> [UInt8]? {
    var code = [UInt8](repeating: 0, count: 32)
    // A key of no bytes needs a pointer, too.
    let known = key + [0]
    return unsafe carillon_hmac_sha256(known, Int32(clamping: key.count), bytes, bytes.count, &code) == 1 ? code : nil
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

  package static func shortSHA256(_ bytes: [UInt8]) -> (high: UInt64, low: UInt64) {
    unsafe bytes.withUnsafeBytes { unsafe shortSHA256($0) }
  }

  /// The SHA-256 of `bytes`: 32 bytes.
  package static func sha256(_ bytes: [UInt8]) -> [UInt8] { unsafe bytes.withUnsafeBytes { unsafe sha256($0) } }

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
