internal import COpenSSL

/// Reads PKCS#12 files, with present encryption and with the RC2-40 and triple DES of Keychain's
/// exports.
enum PKCS12Reading {
  struct Contents {
    let key: KeyHandle?
    /// The certificate of the key comes first, if there is a key.
    let certificates: [X509Handle]
  }

  static func read(_ bytes: [UInt8], passphrase: [UInt8]?) throws(CredentialReadingError) -> Contents {
    do throws(CredentialReadingError) {
      return try unsafe read(bytes, passphrase: passphrase, libraryContext: nil)
    } catch {
      guard case .unusable = error else { throw error }
    }
    guard let legacy = LegacyProvider.shared else {
      throw .unusable("it is encrypted with an old algorithm, and this OpenSSL has no legacy module")
    }
    let found = try unsafe read(bytes, passphrase: passphrase, libraryContext: legacy.libraryContext)
    guard let key = found.key else { return found }
    // Keys and certificates are copied to the default library context.
    let certificates = found.certificates.compactMap { X509Handle(der: $0.der) }
    guard let usable = key.inDefaultContext(), certificates.count == found.certificates.count else {
      throw .unusable(OpenSSLErrors.take())
    }
    return Contents(key: usable, certificates: certificates)
  }

  private static func read(
    _ bytes: [UInt8], passphrase: [UInt8]?, libraryContext: OpaquePointer?
  ) throws(CredentialReadingError) -> Contents {
    OpenSSLErrors.clear()
    defer { OpenSSLErrors.clear() }
    var container = unsafe PKCS12_init_ex(NID_pkcs7_data, libraryContext, nil)
    guard unsafe container != nil else { throw .unusable(OpenSSLErrors.take()) }
    let parsed: OpaquePointer? = unsafe withMemoryBIO(reading: bytes) { unsafe d2i_PKCS12_bio($0, &container) } ?? nil
    // After a failure, the reader has freed the container and set it to nil.
    guard unsafe parsed != nil, let container = unsafe container else {
      unsafe PKCS12_free(container)
      throw .notFound
    }
    defer { unsafe PKCS12_free(container) }

    return try unsafe open(container, passphrase: passphrase, libraryContext: libraryContext)
  }

  private static func open(
    _ container: OpaquePointer, passphrase: [UInt8]?, libraryContext: OpaquePointer?
  ) throws(CredentialReadingError) -> Contents {
    var budget = DerivationBudget()
    var secret = (passphrase ?? []).map { CChar(bitPattern: $0) }
    secret.append(0)
    // An empty passphrase can be written in two ways.
    var isNone = secret.count == 1
    if unsafe PKCS12_mac_present(container) == 1 {
      try budget.spend(unsafe carillon_mac_rounds(container))
      isNone = unsafe isNone && PKCS12_verify_mac(container, nil, 0) == 1
      let opens = unsafe isNone || PKCS12_verify_mac(container, secret, Int32(secret.count - 1)) == 1
      guard opens else {
        // If the MAC cannot be computed, because its digest is unknown, the passphrase may still be
        // right.
        if OpenSSLErrors.takeContains(library: ERR_LIB_EVP, reasons: [EVP_R_UNSUPPORTED_ALGORITHM]) {
          throw .unusable("its integrity check uses an unknown digest")
        }
        throw passphrase == nil ? .passphraseMissing : .wrongPassphrase
      }
    }
    guard
      let bags = unsafe try PKCS12Bags(
        container, secret: isNone ? nil : secret, libraryContext: libraryContext, budget: budget)
    else {
      throw .unusable(OpenSSLErrors.take())
    }
    return Contents(key: bags.key, certificates: bags.certificates)
  }
}

/// Limits the work that a file may demand for deriving keys from its passphrase. Until it has been
/// opened, the file may come from anywhere.
struct DerivationBudget {
  /// For all keys of a file together: a few seconds. A container has three keys (integrity,
  /// certificates, key), with 600,000 rounds each in strong files.
  static let roundLimit: Int64 = 3_000_000
  private var spent: Int64 = 0

  mutating func spend(_ rounds: Int64) throws(CredentialReadingError) {
    let (sum, overflows) = spent.addingReportingOverflow(rounds)
    spent = overflows ? .max : sum
    guard spent <= Self.roundLimit else { throw .derivationTooLong(rounds: spent) }
  }
}
