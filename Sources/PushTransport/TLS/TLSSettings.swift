internal import COpenSSL
internal import Synchronization

/// One of OpenSSL's contexts (SSL_CTX): versions, trust, protocols and call-backs, and a server's
/// certificate.
///
/// A context takes 14 KB and the system's roots a megabyte. So clients that trust the same
/// authorities share one context, whatever certificates they present.
@safe final class TLSSettings: @unchecked Sendable {
  // Sync: configured in init and never changed afterwards. OpenSSL locks its caches and counts its
  // references atomically.
  let pointer: OpaquePointer

  /// The most ciphertext that OpenSSL processes in one call. Its default is one record.
  private static let readBufferByteCount = 64 * 1024

  /// Of TLS 1.2.
  private static let modernCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20"

  private init(isServer: Bool, versions: ClosedRange<TLSVersion>) throws(CredentialError) {
    try OpenSSLErrors.start()
    OpenSSLErrors.clear()
    guard let pointer = unsafe SSL_CTX_new(isServer ? TLS_server_method() : TLS_client_method()) else {
      throw .broken(OpenSSLErrors.take())
    }
    unsafe self.pointer = pointer
    unsafe carillon_set_read_ahead(pointer)
    unsafe SSL_CTX_set_default_read_buffer_len(pointer, Self.readBufferByteCount)
    // Without record buffers, an idle connection saves 34 KB.
    unsafe carillon_set_mode(pointer, Int(SSL_MODE_RELEASE_BUFFERS))
    guard unsafe carillon_set_min_version(pointer, versions.lowerBound.rawValue) == 1,
      unsafe carillon_set_max_version(pointer, versions.upperBound.rawValue) == 1
    else { throw .broken(OpenSSLErrors.take()) }
  }

  deinit { unsafe SSL_CTX_free(pointer) }

  // MARK: Clients

  /// Clients with the same values share settings.
  private struct Kind: Hashable {
    /// The SHA-256 of the file with the authorities; nil: the system's.
    var trust: [UInt8]?
    var versions: ClosedRange<TLSVersion>
    var protocolBytes: [UInt8]
  }

  private struct Shared { weak var settings: TLSSettings? }

  private static let shared = Mutex<[Kind: Shared]>([:])

  /// The settings for a client's configuration; those in use if there are any.
  static func client(
    _ configuration: TLSClientConfiguration, protocolBytes: [UInt8]
  ) throws(CredentialError) -> TLSSettings {
    let authorities: SecretFile.Contents? =
      if case .file(let path) = configuration.trust { try SecretFile.read(path) } else { nil }
    let kind = Kind(
      trust: authorities.map { Digest.sha256($0.bytes) }, versions: configuration.versions, protocolBytes: protocolBytes
    )
    if let settings = shared.withLock({ $0[kind]?.settings }) { return settings }
    let settings = try TLSSettings(isServer: false, versions: configuration.versions)
    try settings.trust(configuration.trust, contents: authorities)
    try settings.becomeClient(protocolBytes: protocolBytes)
    shared.withLock { shared in
      shared = shared.filter { $0.value.settings != nil }
      shared[kind] = Shared(settings: settings)
    }
    return settings
  }

  private func becomeClient(protocolBytes: [UInt8]) throws(CredentialError) {
    // The call-back decides about the server's certificate, and keeps the details for the error's
    // sentence.
    unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, nil)
    unsafe SSL_CTX_set_cert_verify_callback(pointer, { store, _ in unsafe TLSSession.verifyServer(store) }, nil)
    unsafe SSL_CTX_set_cert_cb(pointer, { ssl, _ in unsafe TLSSession.certificateRequested(ssl) }, nil)
    unsafe carillon_set_client_tickets(pointer)
    unsafe SSL_CTX_sess_set_new_cb(pointer, { ssl, session in unsafe TLSSession.ticketArrived(ssl, session) })
    // Unlike similar functions, this one returns 0 on success.
    guard
      unsafe protocolBytes.isEmpty || SSL_CTX_set_alpn_protos(pointer, protocolBytes, UInt32(protocolBytes.count)) == 0
    else {
      throw .broken(OpenSSLErrors.take())
    }
  }

  // MARK: Servers

  static func server(_ configuration: TLSServerConfiguration) throws(CredentialError) -> TLSSettings {
    let settings = try TLSSettings(isServer: true, versions: configuration.versions)
    try settings.becomeServer(configuration)
    return settings
  }

  /// A server's settings as far as the check of a client's certificate needs them.
  static func check(
    _ authorities: Trust, oldestVersion: TLSServerConfiguration.OldVersion?
  ) throws(CredentialError) -> TLSSettings {
    let settings = try TLSSettings(isServer: true, versions: .tls12 ... .tls13)
    try settings.accept(oldestVersion)
    try settings.trust(authorities, contents: nil)
    OpenSSLErrors.clear()
    return settings
  }

  private func accept(_ oldest: TLSServerConfiguration.OldVersion?) throws(CredentialError) {
    guard let oldest else { return }
    unsafe SSL_CTX_set_security_level(pointer, 0)
    guard unsafe carillon_set_min_version(pointer, oldest.rawValue) == 1 else { throw .broken(OpenSSLErrors.take()) }
  }

  private func becomeServer(_ configuration: TLSServerConfiguration) throws(CredentialError) {
    try accept(configuration.oldestVersion)
    if configuration.isModern, unsafe SSL_CTX_set_cipher_list(pointer, Self.modernCiphers) != 1 {
      throw .broken(OpenSSLErrors.take())
    }
    try use(configuration.credential)
    // No tickets for TLS 1.2. For TLS 1.3, a ticket names a session that the server keeps. A ticket
    // that contains the session, certificates included, costs half a handshake to read.
    unsafe SSL_CTX_set_options(pointer, carillon_option_no_ticket)
    // A resumed session presents no certificate that the policy could refuse.
    if configuration.sendsTickets, configuration.clients.refuse == nil, configuration.clients.judge == nil {
      unsafe carillon_set_server_sessions(pointer)
      unsafe SSL_CTX_set_num_tickets(pointer, 1)
      let name = Array("carillon".utf8)
      guard unsafe SSL_CTX_set_session_id_context(pointer, name, UInt32(name.count)) == 1 else {
        throw .broken(OpenSSLErrors.take())
      }
    } else {
      unsafe carillon_set_session_cache_off(pointer)
      unsafe SSL_CTX_set_num_tickets(pointer, 0)
    }
    switch configuration.clients.request {
    case .none: unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_NONE, nil)
    case .optional: unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, nil)
    case .required: unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
    }
    if let authorities = configuration.clients.trust {
      try trust(authorities, contents: nil)
      // The names that the client receives. Without them, it still presents its certificate. With
      // them, many clients present none that another authority has issued.
      if case .file(let path) = authorities, configuration.clients.judge == nil {
        unsafe SSL_CTX_set_client_CA_list(pointer, SSL_load_client_CA_file(path))
      }
      OpenSSLErrors.clear()
    }
    unsafe SSL_CTX_set_cert_verify_callback(pointer, { store, _ in unsafe TLSSession.verifyClient(store) }, nil)
    guard !configuration.applicationProtocols.isEmpty else { return }
    unsafe SSL_CTX_set_alpn_select_cb(
      pointer,
      { ssl, chosen, chosenCount, offered, count, _ in
        unsafe TLSSession.selectProtocol(ssl, chosen, chosenCount, offered, count)
      }, nil)
  }

  private func use(_ credential: Credential) throws(CredentialError) {
    let isUsed = unsafe credential.withChain { chain in
      unsafe SSL_CTX_use_cert_and_key(pointer, credential.certificate.pointer, credential.key.pointer, chain, 1) == 1
    }
    guard isUsed else { throw .unusable(credential) }
  }

  // MARK: Both

  /// - Parameter contents: the file's content, if it has already been read.
  private func trust(_ trust: Trust, contents: SecretFile.Contents?) throws(CredentialError) {
    OpenSSLErrors.clear()
    switch trust {
    case .system:
      guard unsafe SSL_CTX_set_default_verify_paths(pointer) == 1 else {
        throw .broken("the system's root certificates: \(OpenSSLErrors.take())")
      }
    case .file(let path):
      let contents = if let contents { contents } else { try SecretFile.read(path) }
      var authorities = try PEMReading.certificates(contents.bytes, file: path)
      if authorities.isEmpty, let certificate = X509Handle(der: contents.bytes) { authorities = [certificate] }
      guard !authorities.isEmpty else { throw .certificateMissing(file: path) }
      let store = unsafe SSL_CTX_get_cert_store(pointer)
      for authority in authorities {
        guard unsafe X509_STORE_add_cert(store, authority.pointer) == 1 else {
          throw .unsupported(file: path, reason: OpenSSLErrors.take())
        }
      }
    }
  }
}

extension Credential {
  /// Lends the chain in OpenSSL's form. Code that keeps it must take its own references.
  func withChain(_ body: (OpaquePointer) -> Bool) -> Bool {
    OpenSSLErrors.clear()
    guard let chain = unsafe carillon_certificates_new() else { return false }
    defer { unsafe carillon_certificates_free(chain) }
    for certificate in self.chain { _ = unsafe carillon_certificates_push(chain, certificate.pointer) }
    return unsafe body(chain)
  }
}

extension CredentialError {
  /// OpenSSL's reason for refusing a credential.
  static func unusable(_ credential: Credential) -> CredentialError {
    .unsupported(
      file: "the certificate of \(CertificateFields(credential.certificate).subject)", reason: OpenSSLErrors.take())
  }
}
