internal import COpenSSL

/// The steps of making one certificate. Every failure of OpenSSL becomes an error with its reason.
@safe final class CertificateBuilding {
  private let certificate: OpaquePointer

  /// Sets version 3, a random serial number, the key and the dates.
  init(key: KeyHandle, validity: ClosedRange<Int64>) throws(CredentialError) {
    OpenSSLErrors.clear()
    guard let certificate = unsafe X509_new() else { throw .broken(OpenSSLErrors.take()) }
    unsafe self.certificate = unsafe certificate
    // 159 random bits: positive, and practically unique.
    guard let serial = unsafe BN_new() else { throw .broken(OpenSSLErrors.take()) }
    defer { unsafe BN_free(serial) }
    unsafe try Self.check(X509_set_version(certificate, 2))
    unsafe try Self.check(BN_rand(serial, 159, 0, 0))
    unsafe try Self.check(BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(certificate)) == nil ? 0 : 1)
    unsafe try Self.check(X509_set_pubkey(certificate, key.pointer))
    unsafe try Self.check(ASN1_TIME_set(X509_getm_notBefore(certificate), time_t(validity.lowerBound)) == nil ? 0 : 1)
    unsafe try Self.check(ASN1_TIME_set(X509_getm_notAfter(certificate), time_t(validity.upperBound)) == nil ? 0 : 1)
  }

  deinit { unsafe X509_free(certificate) }

  static func makeKey(_ algorithm: CertificateRequest.KeyAlgorithm) throws(CredentialError) -> KeyHandle {
    try OpenSSLErrors.start()
    OpenSSLErrors.clear()
    let key =
      switch algorithm {
      case .ecP256: unsafe carillon_make_ec_key("P-256")
      case .rsa2048: unsafe carillon_make_rsa_key(2048)
      }
    guard let made = unsafe key else { throw .broken(OpenSSLErrors.take()) }
    return unsafe KeyHandle(taking: made)
  }

  static func isAddress(_ name: String) -> Bool {
    guard let address = unsafe a2i_IPADDRESS(name) else {
      OpenSSLErrors.clear()
      return false
    }
    unsafe ASN1_STRING_free(address)
    return true
  }

  func setSubject(commonName: String, userIdentifier: String?) throws(CredentialError) {
    let name = unsafe X509_get_subject_name(certificate)
    if let userIdentifier { unsafe try add(NID_userId, userIdentifier, to: name) }
    unsafe try add(NID_commonName, commonName, to: name)
  }

  /// - Parameter issuer: nil for a self-signed certificate.
  func setIssuer(_ issuer: X509Handle?) throws(CredentialError) {
    unsafe try Self.check(X509_set_issuer_name(certificate, X509_get_subject_name(issuer?.pointer ?? certificate)))
  }

  /// Adds an extension in the notation of OpenSSL's configuration files.
  func addExtension(_ identifier: Int32, _ value: String, issuer: X509Handle? = nil) throws(CredentialError) {
    var context = unsafe X509V3_CTX()
    unsafe X509V3_set_ctx(&context, issuer?.pointer, certificate, nil, nil, 0)
    guard let made = unsafe X509V3_EXT_conf_nid(nil, &context, identifier, value) else {
      throw .broken(OpenSSLErrors.take())
    }
    defer { unsafe X509_EXTENSION_free(made) }
    unsafe try Self.check(X509_add_ext(certificate, made, -1))
  }

  /// Adds an extension whose content is in DER.
  func addExtension(_ identifier: String, _ der: [UInt8]) throws(CredentialError) {
    guard let object = unsafe OBJ_txt2obj(identifier, 1), let data = unsafe ASN1_STRING_type_new(V_ASN1_OCTET_STRING)
    else {
      throw .broken(OpenSSLErrors.take())
    }
    defer {
      unsafe ASN1_OBJECT_free(object)
      unsafe ASN1_STRING_free(data)
    }
    unsafe try Self.check(ASN1_STRING_set(data, der, Int32(der.count)))
    guard let made = unsafe X509_EXTENSION_create_by_OBJ(nil, object, 0, data) else {
      throw .broken(OpenSSLErrors.take())
    }
    defer { unsafe X509_EXTENSION_free(made) }
    unsafe try Self.check(X509_add_ext(certificate, made, -1))
  }

  func sign(with key: KeyHandle) throws(CredentialError) -> X509Handle {
    unsafe try Self.check(X509_sign(certificate, key.pointer, EVP_sha256()) > 0 ? 1 : 0)
    unsafe try Self.check(X509_up_ref(certificate))
    return unsafe X509Handle(taking: certificate)
  }

  private func add(_ identifier: Int32, _ text: String, to name: OpaquePointer?) throws(CredentialError) {
    let bytes = Array(text.utf8)
    unsafe try Self.check(
      X509_NAME_add_entry_by_NID(name, identifier, carillon_utf8_text, bytes, Int32(bytes.count), -1, 0))
  }

  private static func check(_ result: Int32) throws(CredentialError) {
    guard result == 1 else { throw .broken(OpenSSLErrors.take()) }
  }
}
