internal import COpenSSL

/// The check of a client's certificate as a server does it, without a connection.
package enum ClientCertificateCheck {
  /// Why none of the authorities counts as the certificate's issuer; nil: one does, and the dates
  /// are good.
  ///
  /// - Parameters:
  ///   - file: PEM, PKCS#12 or DER. The client sends the other certificates in it too.
  ///   - authorities: whom the server trusts.
  ///   - oldestVersion: of the server; see ``TLSServerConfiguration``.
  package static func distrust(
    _ file: String, authorities: Trust, oldestVersion: TLSServerConfiguration.OldVersion?
  ) throws(CredentialError) -> String? {
    let client = try CertificateFile(file)
    let settings = try TLSSettings.check(authorities, oldestVersion: oldestVersion)
    OpenSSLErrors.clear()
    guard let check = unsafe X509_STORE_CTX_new(), let chain = unsafe carillon_certificates_new() else {
      throw .broken(OpenSSLErrors.take())
    }
    defer {
      unsafe X509_STORE_CTX_free(check)
      unsafe carillon_certificates_free(chain)
    }
    for certificate in client.chain { _ = unsafe carillon_certificates_push(chain, certificate.pointer) }
    let store = unsafe SSL_CTX_get_cert_store(settings.pointer)
    guard unsafe X509_STORE_CTX_init(check, store, client.leaf.pointer, chain) == 1,
      let parameters = unsafe X509_STORE_CTX_get0_param(check)
    else { throw .broken(OpenSSLErrors.take()) }
    // The same steps as in OpenSSL's handshake (ssl_verify_cert_chain).
    unsafe X509_VERIFY_PARAM_set_auth_level(parameters, SSL_CTX_get_security_level(settings.pointer))
    guard unsafe X509_STORE_CTX_set_default(check, "ssl_client") == 1,
      unsafe X509_VERIFY_PARAM_set1(parameters, SSL_CTX_get0_param(settings.pointer)) == 1
    else { throw .broken(OpenSSLErrors.take()) }
    return unsafe TLSSession.distrust(verifying: check)
  }
}
