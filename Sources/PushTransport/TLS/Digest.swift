internal import COpenSSL

/// Message digests.
package enum Digest {
  /// SHA-256 of `bytes`: 32 bytes.
  package static func sha256(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
    unsafe [UInt8](unsafeUninitializedCapacity: 32) { digest, count in
      var written: UInt32 = 0
      let done = unsafe EVP_Digest(bytes.baseAddress, bytes.count, digest.baseAddress, &written, EVP_sha256(), nil)
      precondition(done == 1 && written == 32, "SHA-256 is part of every OpenSSL")
      count = 32
    }
  }

  /// SHA-256 of `bytes`: 32 bytes.
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
