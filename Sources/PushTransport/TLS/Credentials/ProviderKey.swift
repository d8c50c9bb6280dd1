internal import COpenSSL
internal import PushWire

/// A token signing key: a P-256 private key in the form of the developer account
/// (`AuthKey_XXXXXXXXXX.p8`), with its identifiers.
package struct ProviderKey: Sendable {
  /// The key's ten characters, which are also part of the file's name.
  package let keyIdentifier: String
  /// The team's ten characters.
  package let teamIdentifier: String
  private let key: KeyHandle

  /// Reads a `.p8` file: PKCS#8 in PEM, unencrypted. Only its owner may have access (`mode & 077 ==
  /// 0`).
  package static func load(
    file: String, keyIdentifier: String, teamIdentifier: String
  ) throws(CredentialError) -> ProviderKey {
    let contents = try SecretFile.read(file)
    let key = try readKey(contents.bytes, file: file)
    if contents.isOpenToOthers, let mode = contents.mode { throw .openToOthers(file: file, mode: mode) }
    return try make(key, keyIdentifier: keyIdentifier, teamIdentifier: teamIdentifier, file: file)
  }

  /// The same from the content of such a file.
  package static func load(
    bytes: [UInt8], keyIdentifier: String, teamIdentifier: String
  ) throws(CredentialError) -> ProviderKey {
    let name = "the token key in memory"
    return try make(
      try readKey(bytes, file: name), keyIdentifier: keyIdentifier, teamIdentifier: teamIdentifier, file: name)
  }

  private static func make(
    _ key: KeyHandle, keyIdentifier: String, teamIdentifier: String, file: String
  ) throws(CredentialError) -> ProviderKey {
    try check(keyIdentifier, file: file, what: "key identifier")
    try check(teamIdentifier, file: file, what: "team identifier")
    return ProviderKey(keyIdentifier: keyIdentifier, teamIdentifier: teamIdentifier, key: key)
  }

  /// Makes a key, for simulators and tests.
  package static func make(keyIdentifier: String, teamIdentifier: String) throws(CredentialError) -> ProviderKey {
    ProviderKey(
      keyIdentifier: keyIdentifier, teamIdentifier: teamIdentifier, key: try CertificateBuilding.makeKey(.ecP256))
  }

  /// Writes the key as a `.p8` file (mode 0600).
  package func write(to path: String) throws(CredentialError) {
    guard let pem = key.pem(passphrase: nil) else { throw .broken(OpenSSLErrors.take()) }
    try SecretFile.write(pem, to: path, mode: 0o600)
  }

  package var publicKey: ProviderPublicKey { ProviderPublicKey(key) }

  /// The SHA-256 of the public key (SubjectPublicKeyInfo) in lower-case hexadecimal. Two files with
  /// the same fingerprint contain the same key.
  package var fingerprint: String { publicKey.fingerprint }

  /// Signs a token with this time of issue, in seconds since 1970.
  package func token(issuedAt: Int64) throws(CredentialError) -> String {
    let input = ProviderTokenText.signingInput(
      keyIdentifier: keyIdentifier, teamIdentifier: teamIdentifier, issuedAt: issuedAt)
    return ProviderTokenText.text(signingInput: input, signature: try sign(input))
  }

  /// The 64 bytes r‖s of ES256 (RFC 7518, section 3.4) over the SHA-256 of `input`.
  func sign(_ input: [UInt8]) throws(CredentialError) -> [UInt8] {
    OpenSSLErrors.clear()
    guard let context = unsafe EVP_MD_CTX_new() else { throw .broken(OpenSSLErrors.take()) }
    defer { unsafe EVP_MD_CTX_free(context) }
    // A P-256 signature in DER is never larger.
    var der = [UInt8](repeating: 0, count: 128)
    var count = der.count
    guard unsafe EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key.pointer) == 1,
      unsafe EVP_DigestSign(context, &der, &count, input, input.count) == 1,
      let signature = ES256Signature.raw(der: Array(der[..<count]))
    else { throw .broken(OpenSSLErrors.take()) }
    return signature
  }

  static func readKey(_ bytes: [UInt8], file: String) throws(CredentialError) -> KeyHandle {
    try OpenSSLErrors.start()
    guard PEMReading.looksLikePEM(bytes) else { throw .notTokenKey(file: file, found: "no PEM text") }
    let key: KeyHandle
    do throws(CredentialReadingError) {
      key = try PEMReading.key(bytes, passphrase: nil)
    } catch {
      switch error {
      case .passphraseMissing, .wrongPassphrase, .derivationTooLong: throw .tokenKeyEncrypted(file: file)
      case .unusable(let reason): throw .notTokenKey(file: file, found: "a key that cannot be read (\(reason))")
      case .notFound:
        let text = String(decoding: bytes, as: UTF8.self)
        let found =
          text.contains("BEGIN CERTIFICATE")
          ? "a certificate" : text.contains("PUBLIC KEY") ? "a public key" : "no private key"
        throw .notTokenKey(file: file, found: found)
      }
    }
    if let other = ES256Signature.unsuitable(key) { throw .notTokenKey(file: file, found: other) }
    return key
  }

  private static func check(_ identifier: String, file: String, what: String) throws(CredentialError) {
    let isPlain = identifier.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    guard !identifier.isEmpty, isPlain, identifier.utf8.count <= 64 else {
      throw .identifierUnusable(file: file, what: what)
    }
  }
}

/// The public half of a ``ProviderKey``. It verifies tokens on the service's side.
package struct ProviderPublicKey: Sendable {
  private let key: KeyHandle
  package let fingerprint: String

  init(_ key: KeyHandle) {
    self.key = key
    var bytes: UnsafeMutablePointer<UInt8>?
    let count = unsafe i2d_PUBKEY(key.pointer, &bytes)
    let der = unsafe bytes.map { unsafe Array(UnsafeBufferPointer(start: $0, count: Int(max(count, 0)))) } ?? []
    unsafe CRYPTO_free(bytes, nil, 0)
    fingerprint = Digest.hexadecimal(Digest.sha256(der))
  }

  /// Reads a public key in PEM (`openssl pkey -pubout`), or the public half of a private key.
  package static func load(file: String) throws(CredentialError) -> ProviderPublicKey {
    try OpenSSLErrors.start()
    let contents = try SecretFile.read(file)
    let key: KeyHandle
    if let found = try? PEMReading.key(contents.bytes, passphrase: nil) {
      key = found
    } else {
      OpenSSLErrors.clear()
      let found = unsafe withMemoryBIO(reading: contents.bytes) { unsafe PEM_read_bio_PUBKEY($0, nil, nil, nil) } ?? nil
      OpenSSLErrors.clear()
      guard let found = unsafe found else {
        throw .notTokenKey(file: file, found: "neither a public nor a private key")
      }
      key = unsafe KeyHandle(taking: found)
    }
    if let other = ES256Signature.unsuitable(key) { throw .notTokenKey(file: file, found: other) }
    return ProviderPublicKey(key)
  }

  /// Whether `signature` was made over `input` with this key.
  ///
  /// - Parameter acceptsDER: also accepts ASN.1 DER, which one client in production sends (Pushy).
  ///   RFC 7518 demands r‖s.
  package func verifies(_ signature: [UInt8], over input: [UInt8], acceptsDER: Bool = false) -> Bool {
    let der: [UInt8]
    if signature.count == ES256Signature.byteCount, let encoded = ES256Signature.der(raw: signature) {
      der = encoded
    } else if acceptsDER {
      der = signature
    } else {
      return false
    }
    defer { OpenSSLErrors.clear() }
    guard let context = unsafe EVP_MD_CTX_new() else { return false }
    defer { unsafe EVP_MD_CTX_free(context) }
    return unsafe EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key.pointer) == 1
      && EVP_DigestVerify(context, der, der.count, input, input.count) == 1
  }
}

/// The two forms of a P-256 signature.
enum ES256Signature {
  static let byteCount = 64

  /// Converts DER to r‖s, 32 bytes each; nil if `der` is not a signature.
  static func raw(der: [UInt8]) -> [UInt8]? {
    let parsed = unsafe der.withUnsafeBufferPointer { bytes in
      var cursor = bytes.baseAddress
      return unsafe d2i_ECDSA_SIG(nil, &cursor, bytes.count)
    }
    guard let parsed = unsafe parsed else { return nil }
    defer { unsafe ECDSA_SIG_free(parsed) }
    var raw = [UInt8](repeating: 0, count: byteCount)
    let isComplete = unsafe raw.withUnsafeMutableBufferPointer { raw in
      unsafe BN_bn2binpad(ECDSA_SIG_get0_r(parsed), raw.baseAddress, 32) == 32
        && BN_bn2binpad(ECDSA_SIG_get0_s(parsed), raw.baseAddress.map { unsafe $0 + 32 }, 32) == 32
    }
    return isComplete ? raw : nil
  }

  /// Converts r‖s to DER.
  static func der(raw: [UInt8]) -> [UInt8]? {
    guard raw.count == byteCount, let signature = unsafe ECDSA_SIG_new() else { return nil }
    defer { unsafe ECDSA_SIG_free(signature) }
    let numbers = unsafe raw.withUnsafeBufferPointer { bytes in
      unsafe (BN_bin2bn(bytes.baseAddress, 32, nil), BN_bin2bn(bytes.baseAddress.map { unsafe $0 + 32 }, 32, nil))
    }
    guard let r = unsafe numbers.0, let s = unsafe numbers.1, unsafe ECDSA_SIG_set0(signature, r, s) == 1 else {
      unsafe BN_free(numbers.0)
      unsafe BN_free(numbers.1)
      return nil
    }
    var bytes: UnsafeMutablePointer<UInt8>?
    let count = unsafe i2d_ECDSA_SIG(signature, &bytes)
    guard let bytes = unsafe bytes, count > 0 else { return nil }
    defer { unsafe CRYPTO_free(bytes, nil, 0) }
    return unsafe Array(UnsafeBufferPointer(start: bytes, count: Int(count)))
  }

  /// Describes a key that is not a P-256 key, for example "a key on the curve secp384r1"; nil for a
  /// P-256 key.
  static func unsuitable(_ key: KeyHandle) -> String? {
    guard unsafe EVP_PKEY_is_a(key.pointer, "EC") == 1 else {
      let name = unsafe EVP_PKEY_get0_type_name(key.pointer).map { unsafe String(cString: $0) } ?? "unknown"
      return "a key of the type \(name)"
    }
    var text = [CChar](repeating: 0, count: 64)
    var count = 0
    guard unsafe EVP_PKEY_get_group_name(key.pointer, &text, text.count, &count) == 1 else {
      return "a key without a named curve"
    }
    let name = String(decoding: text[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return name == "prime256v1" || name == "P-256" ? nil : "a key on the curve \(name)"
  }
}

/// The content of a `.p8` file, even if it cannot be used for sending. Nothing is signed with it.
package struct TokenKeyInspection: Sendable, Hashable {
  package let file: String
  /// For example `EC P-256`, the only kind that signs provider tokens.
  package let keyType: String
  /// See ``ProviderKey/fingerprint``.
  package let fingerprint: String
  /// The permission bits of the file; nil if it is not a regular file.
  package let mode: UInt32?
  package let findings: [CredentialFinding]

  /// Reads a token signing key. Open permissions are a finding, not an error.
  package static func load(file: String) throws(CredentialError) -> TokenKeyInspection {
    let contents = try SecretFile.read(file)
    let fingerprint = try ProviderKey.fingerprint(contents.bytes, file: file)
    var findings: [CredentialFinding] = []
    if contents.isOpenToOthers, let mode = contents.mode { findings.append(.openToOthers(file: file, mode: mode)) }
    return TokenKeyInspection(
      file: file, keyType: "EC P-256", fingerprint: fingerprint, mode: contents.mode, findings: findings)
  }
}

extension ProviderKey {
  static func fingerprint(_ bytes: [UInt8], file: String) throws(CredentialError) -> String {
    ProviderPublicKey(try readKey(bytes, file: file)).fingerprint
  }
}
