internal import COpenSSL

/// One reference to an X.509 certificate.
@safe final class X509Handle: @unchecked Sendable {
  // Sync: the certificate never changes after init. OpenSSL counts references atomically.
  let pointer: OpaquePointer

  /// Takes over the caller's reference.
  init(taking pointer: OpaquePointer) { unsafe self.pointer = pointer }

  /// Reads one certificate in DER.
  init?(der: [UInt8]) {
    let parsed = unsafe der.withUnsafeBufferPointer { bytes in
      var cursor = bytes.baseAddress
      return unsafe d2i_X509(nil, &cursor, bytes.count)
    }
    guard let parsed = unsafe parsed else {
      OpenSSLErrors.clear()
      return nil
    }
    unsafe pointer = parsed
  }

  deinit { unsafe X509_free(pointer) }

  var der: [UInt8] {
    var bytes: UnsafeMutablePointer<UInt8>?
    let count = unsafe i2d_X509(pointer, &bytes)
    guard let bytes = unsafe bytes, count > 0 else {
      OpenSSLErrors.clear()
      return []
    }
    defer { unsafe CRYPTO_free(bytes, nil, 0) }
    return unsafe Array(UnsafeBufferPointer(start: bytes, count: Int(count)))
  }

  var pem: [UInt8]? { unsafe bytesWritten { unsafe PEM_write_bio_X509($0, pointer) == 1 } }

  func matches(_ key: KeyHandle) -> Bool {
    defer { OpenSSLErrors.clear() }
    return unsafe X509_check_private_key(pointer, key.pointer) == 1
  }
}

/// One reference to a private key.
@safe final class KeyHandle: @unchecked Sendable {
  // Sync: the key never changes after init. OpenSSL counts references atomically and locks its
  // caches.
  let pointer: OpaquePointer

  /// Takes over the caller's reference.
  init(taking pointer: OpaquePointer) { unsafe self.pointer = pointer }

  deinit { unsafe EVP_PKEY_free(pointer) }

  /// Copies the key to OpenSSL's default library context, where TLS can use it. For keys that were
  /// read in another context.
  func inDefaultContext() -> KeyHandle? {
    var bytes: UnsafeMutablePointer<UInt8>?
    let count = unsafe i2d_PrivateKey(pointer, &bytes)
    guard let bytes = unsafe bytes, count > 0 else { return nil }
    defer { unsafe CRYPTO_clear_free(bytes, Int(count), nil, 0) }
    var cursor: UnsafePointer<UInt8>? = unsafe UnsafePointer(bytes)
    guard let key = unsafe d2i_AutoPrivateKey(nil, &cursor, Int(count)) else { return nil }
    return unsafe KeyHandle(taking: key)
  }

  /// The key as PKCS#8 in PEM, encrypted with AES-256 if there is a passphrase.
  func pem(passphrase: String?) -> [UInt8]? {
    let secret = (passphrase ?? "").utf8.map { CChar(bitPattern: $0) }
    return unsafe bytesWritten { bio in
      unsafe PEM_write_bio_PKCS8PrivateKey(
        bio, pointer, passphrase == nil ? nil : EVP_aes_256_cbc(), passphrase == nil ? nil : secret,
        Int32(secret.count), nil, nil) == 1
    }
  }
}
