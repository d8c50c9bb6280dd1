internal import COpenSSL

/// Opens the bags of a PKCS#12 file one by one in a library context.
///
/// `PKCS12_parse` cannot be used for two reasons. OpenSSL 3.0 decrypts key bags in the default
/// context even if the file was read in another, so it cannot open a key that is encrypted with
/// RC2-40. And it does as many rounds of key derivation as the file demands.
@safe struct PKCS12Bags {
  private(set) var key: KeyHandle?
  private(set) var certificates: [X509Handle] = []
  private let secret: [CChar]?
  private var secretCount: Int32 { secret.map { Int32($0.count - 1) } ?? 0 }
  private let libraryContext: OpaquePointer?
  private var budget: DerivationBudget
  /// Bags may contain bags, though OpenSSL's own writer never nests them.
  private static let depthLimit = 4

  /// Nil if a bag cannot be opened; the reason is in OpenSSL's error queue.
  ///
  /// - Parameters:
  ///   - secret: the passphrase with a terminating zero. No passphrase differs from an empty one.
  ///   - container: a file whose integrity has been checked with that passphrase.
  ///   - budget: what the integrity check has left.
  init?(
    _ container: OpaquePointer, secret: [CChar]?, libraryContext: OpaquePointer?, budget: DerivationBudget
  ) throws(CredentialReadingError) {
    self.secret = secret
    unsafe self.libraryContext = unsafe libraryContext
    self.budget = budget
    guard let safes = unsafe PKCS12_unpack_authsafes(container) else { return nil }
    defer { unsafe OPENSSL_sk_pop_free(safes) { unsafe PKCS7_free($0?.assumingMemoryBound(to: PKCS7.self)) } }
    for index in 0..<(unsafe OPENSSL_sk_num(safes)) {
      guard let safe = unsafe OPENSSL_sk_value(safes, index)?.assumingMemoryBound(to: PKCS7.self) else { return nil }
      let bags: OpaquePointer?
      switch unsafe OBJ_obj2nid(safe.pointee.type) {
      case NID_pkcs7_data: unsafe bags = unsafe PKCS12_unpack_p7data(safe)
      case NID_pkcs7_encrypted:
        try self.budget.spend(unsafe carillon_safe_rounds(safe))
        unsafe bags = unsafe PKCS12_unpack_p7encdata(safe, secret, secretCount)
      default: continue
      }
      guard let bags = unsafe bags else { return nil }
      defer { unsafe OPENSSL_sk_pop_free(bags) { unsafe PKCS12_SAFEBAG_free(OpaquePointer($0)) } }
      guard unsafe try open(bags, depth: 0) else { return nil }
    }
    // The certificate of the key comes first.
    if let key,
      let leaf = certificates.firstIndex(where: { unsafe X509_check_private_key($0.pointer, key.pointer) == 1 })
    {
      certificates.insert(certificates.remove(at: leaf), at: 0)
    }
    // Certificates for other keys have left errors in the queue.
    OpenSSLErrors.clear()
  }

  private mutating func open(_ bags: OpaquePointer, depth: Int) throws(CredentialReadingError) -> Bool {
    for index in 0..<(unsafe OPENSSL_sk_num(bags)) {
      guard let bag = unsafe OpaquePointer(OPENSSL_sk_value(bags, index)) else { return false }
      switch unsafe PKCS12_SAFEBAG_get_nid(bag) {
      case NID_keyBag where key == nil:
        guard let found = unsafe EVP_PKCS82PKEY_ex(PKCS12_SAFEBAG_get0_p8inf(bag), libraryContext, nil) else {
          return false
        }
        key = unsafe KeyHandle(taking: found)
      case NID_pkcs8ShroudedKeyBag where key == nil:
        try budget.spend(unsafe carillon_signature_rounds(PKCS12_SAFEBAG_get0_pkcs8(bag)))
        guard let opened = unsafe PKCS12_decrypt_skey_ex(bag, secret, secretCount, libraryContext, nil) else {
          return false
        }
        defer { unsafe PKCS8_PRIV_KEY_INFO_free(opened) }
        guard let found = unsafe EVP_PKCS82PKEY_ex(opened, libraryContext, nil) else { return false }
        key = unsafe KeyHandle(taking: found)
      case NID_certBag where unsafe PKCS12_SAFEBAG_get_bag_nid(bag) == NID_x509Certificate:
        guard let found = unsafe PKCS12_SAFEBAG_get1_cert(bag) else { return false }
        certificates.append(unsafe X509Handle(taking: found))
      case NID_safeContentsBag:
        guard depth < Self.depthLimit, let inner = unsafe PKCS12_SAFEBAG_get0_safes(bag) else { return false }
        guard unsafe try open(inner, depth: depth + 1) else { return false }
      default: continue
      }
    }
    return true
  }
}
