internal import COpenSSL

/// The check of a client's certificate as a server does it, without a connection.
package enum ClientCertificateCheck {
  /// Why none of the authorities counts as the certificate's issuer; nil: one does, and the dates
  /// are good.
  ///
  /// - Parameters:
  ///   - file: PEM or DER; the first certificate in it.
  ///   - authorities: a PEM file.
  package static func distrust(_ file: String, authorities: String) throws(CredentialError) -> String? {
    let contents = try SecretFile.read(file)
    var certificates = try PEMReading.certificates(contents.bytes, file: file)
    if certificates.isEmpty, let certificate = X509Handle(der: contents.bytes) { certificates = [certificate] }
    guard let leaf = certificates.first else { throw .certificateMissing(file: file) }
    OpenSSLErrors.clear()
    guard let store = unsafe X509_STORE_new(), let check = unsafe X509_STORE_CTX_new() else {
      throw .broken(OpenSSLErrors.take())
    }
    defer {
      unsafe X509_STORE_CTX_free(check)
      unsafe X509_STORE_free(store)
    }
    for authority in try PEMReading.certificates(SecretFile.read(authorities).bytes, file: authorities) {
      guard unsafe X509_STORE_add_cert(store, authority.pointer) == 1 else {
        throw .unsupported(file: authorities, reason: OpenSSLErrors.take())
      }
    }
    guard unsafe X509_STORE_CTX_init(check, store, leaf.pointer, nil) == 1,
      unsafe X509_STORE_CTX_set_default(check, "ssl_client") == 1
    else { throw .broken(OpenSSLErrors.take()) }
    let isTrusted = unsafe X509_verify_cert(check) == 1
    OpenSSLErrors.clear()
    guard !isTrusted else { return nil }
    let error = unsafe X509_STORE_CTX_get_error(check)
    return unsafe "its certificate is not trusted: \(String(cString: X509_verify_cert_error_string(Int(error))))"
  }
}
