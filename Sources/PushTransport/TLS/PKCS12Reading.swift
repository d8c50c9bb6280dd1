internal import COpenSSL

/// Reading of PKCS#12 files, with present-day encryption and with the RC2-40 and triple DES of Keychain's exports.
enum PKCS12Reading {
  struct Contents {
    let key: KeyHandle?
    /// The certificate of the key first, if there is a key.
    let certificates: [X509Handle]
  }

  enum Outcome {
    case contents(Contents)
    case notPKCS12
    case passphraseMissing
    case wrongPassphrase
    case unsupported(String)
  }

  static func read(_ bytes: [UInt8], passphrase: [UInt8]?) -> Outcome {
    let first = unsafe read(bytes, passphrase: passphrase, libraryContext: nil)
    guard case .unsupported = first else { return first }
    guard let legacy = LegacyProvider.shared else {
      return .unsupported("it is encrypted with an old algorithm, and this OpenSSL comes without its legacy module")
    }
    let second = unsafe read(bytes, passphrase: passphrase, libraryContext: legacy.libraryContext)
    guard case .contents(let found) = second else { return second }
    guard let key = found.key else { return second }
    // Everything is carried over into the default library context.
    let certificates = found.certificates.compactMap { X509Handle(der: $0.der) }
    guard let usable = key.inDefaultContext(), certificates.count == found.certificates.count else { return .unsupported(OpenSSLErrors.take()) }
    return .contents(Contents(key: usable, certificates: certificates))
  }

  private static func read(_ bytes: [UInt8], passphrase: [UInt8]?, libraryContext: OpaquePointer?) -> Outcome {
    OpenSSLErrors.clear()
    defer { OpenSSLErrors.clear() }
    var container = unsafe PKCS12_init_ex(NID_pkcs7_data, libraryContext, nil)
    guard unsafe container != nil else { return .unsupported(OpenSSLErrors.take()) }
    let parsed: OpaquePointer? = unsafe withMemoryBIO(reading: bytes) { unsafe d2i_PKCS12_bio($0, &container) } ?? nil
    // On failure the reader has freed the container and set it to nil.
    guard unsafe parsed != nil else {
      unsafe PKCS12_free(container)
      return .notPKCS12
    }
    defer { unsafe PKCS12_free(container) }

    var secret = (passphrase ?? []).map { CChar(bitPattern: $0) }
    secret.append(0)
    if unsafe PKCS12_mac_present(container) == 1 {
      let opens = unsafe PKCS12_verify_mac(container, secret, Int32(secret.count - 1)) == 1 || (secret.count == 1 && PKCS12_verify_mac(container, nil, 0) == 1)
      guard opens else {
        // A MAC that cannot be computed (an unknown digest) is not a wrong passphrase.
        if OpenSSLErrors.takeContains(library: ERR_LIB_EVP, reasons: [EVP_R_UNSUPPORTED_ALGORITHM]) {
          return .unsupported("its integrity check uses an unknown digest")
        }
        return passphrase == nil ? .passphraseMissing : .wrongPassphrase
      }
    }
    // PKCS12_parse would forget the library context when it comes to the key.
    if let opened = unsafe container, unsafe libraryContext != nil {
      let isNone = unsafe secret.count == 1 && (PKCS12_mac_present(opened) == 0 || PKCS12_verify_mac(opened, nil, 0) == 1)
      guard let bags = unsafe PKCS12Bags(opened, secret: isNone ? nil : secret, libraryContext: libraryContext) else {
        return .unsupported(OpenSSLErrors.take())
      }
      return .contents(Contents(key: bags.key, certificates: bags.certificates))
    }
    var key: OpaquePointer?
    var leaf: OpaquePointer?
    var others: OpaquePointer?
    guard unsafe PKCS12_parse(container, secret, &key, &leaf, &others) == 1 else { return .unsupported(OpenSSLErrors.take()) }
    defer { unsafe carillon_certificates_free(others) }
    var certificates: [X509Handle] = []
    if let leaf = unsafe leaf { unsafe certificates.append(X509Handle(taking: leaf)) }
    for index in 0..<(unsafe carillon_certificates_count(others)) {
      if let certificate = unsafe carillon_certificates_at(others, index) { unsafe certificates.append(X509Handle(taking: certificate)) }
    }
    return unsafe .contents(Contents(key: key.map { unsafe KeyHandle(taking: $0) }, certificates: certificates))
  }
}
