internal import COpenSSL

/// What all connections of one kind share: credential, trust and versions. Made once, used by any number of sessions on any thread.
@safe package final class TLSContext: @unchecked Sendable {
  // Sync: the SSL_CTX is configured in init and never changed afterwards; OpenSSL locks its caches and counts its references atomically.
  let pointer: OpaquePointer
  let isServer: Bool
  let clients: ClientCertificatePolicy
  let applicationProtocols: [String]
  /// The same as ALPN writes them: each after a byte with its length.
  private let protocolBytes: [UInt8]

  /// The largest piece of ciphertext that OpenSSL takes in at once: more records per call than the default of one.
  private static let readBufferByteCount = 64 * 1024

  package convenience init(client configuration: TLSClientConfiguration) throws(CredentialError) {
    try self.init(isServer: false, clients: .none, versions: configuration.versions, applicationProtocols: configuration.applicationProtocols)
    try trust(configuration.trust)
    if let credential = configuration.credential { try use(credential) }
    // Whether the server's certificate is right is decided by the call-back, which keeps what it has seen for the error's sentence.
    unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, nil)
    unsafe SSL_CTX_set_cert_verify_callback(pointer, { store, _ in unsafe TLSSession.verifyServer(store) }, nil)
    unsafe SSL_CTX_set_cert_cb(
      pointer,
      { ssl, _ in
        unsafe TLSSession.certificateRequested(ssl)
        return 1
      }, nil)
  }

  package convenience init(server configuration: TLSServerConfiguration) throws(CredentialError) {
    try self.init(
      isServer: true, clients: configuration.clients, versions: configuration.versions, applicationProtocols: configuration.applicationProtocols)
    try use(configuration.credential)
    if !configuration.sendsTickets {
      unsafe SSL_CTX_set_num_tickets(pointer, 0)
      unsafe SSL_CTX_set_options(pointer, carillon_option_no_ticket)  // TLS 1.2's tickets
    }
    switch configuration.clients.request {
    case .none: unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_NONE, nil)
    case .optional: unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, nil)
    case .required: unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
    }
    if let authorities = configuration.clients.trust {
      try trust(authorities)
      // The names that the client is told; without them it shows what it has all the same.
      if case .file(let path) = authorities { unsafe SSL_CTX_set_client_CA_list(pointer, SSL_load_client_CA_file(path)) }
      OpenSSLErrors.clear()
    }
    unsafe SSL_CTX_set_cert_verify_callback(pointer, { store, _ in unsafe TLSSession.verifyClient(store) }, nil)
  }

  private init(
    isServer: Bool, clients: ClientCertificatePolicy, versions: ClosedRange<TLSVersion>, applicationProtocols: [String]
  ) throws(CredentialError) {
    OpenSSLErrors.clear()
    guard let pointer = unsafe SSL_CTX_new(isServer ? TLS_server_method() : TLS_client_method()) else { throw .broken(OpenSSLErrors.take()) }
    unsafe self.pointer = pointer
    self.isServer = isServer
    self.clients = clients
    self.applicationProtocols = applicationProtocols
    protocolBytes = applicationProtocols.flatMap { [UInt8($0.utf8.count)] + $0.utf8 }
    unsafe carillon_set_read_ahead(pointer)
    unsafe SSL_CTX_set_default_read_buffer_len(pointer, Self.readBufferByteCount)
    unsafe carillon_set_session_cache_off(pointer)
    guard unsafe carillon_set_min_version(pointer, versions.lowerBound.rawValue) == 1,
      unsafe carillon_set_max_version(pointer, versions.upperBound.rawValue) == 1
    else { throw .broken(OpenSSLErrors.take()) }
    try negotiateProtocol()
  }

  deinit { unsafe SSL_CTX_free(pointer) }

  private func negotiateProtocol() throws(CredentialError) {
    guard !protocolBytes.isEmpty else { return }
    if isServer {
      unsafe SSL_CTX_set_alpn_select_cb(
        pointer, { ssl, chosen, chosenCount, offered, count, _ in unsafe TLSSession.selectProtocol(ssl, chosen, chosenCount, offered, count) }, nil)
    } else {
      // Unlike its neighbours, it returns 0 when it has worked.
      guard unsafe SSL_CTX_set_alpn_protos(pointer, protocolBytes, UInt32(protocolBytes.count)) == 0 else { throw .broken(OpenSSLErrors.take()) }
    }
  }

  /// The protocol that the server picks from a client's list; nil if there is none in common. The result points into the list.
  func selectProtocol(from offered: UnsafeBufferPointer<UInt8>) -> UnsafeBufferPointer<UInt8>? {
    for wanted in applicationProtocols {
      var offset = 0
      while offset < offered.count {
        let start = offset + 1
        offset = unsafe start + Int(offered[offset])
        guard offset <= offered.count else { break }
        let name = unsafe UnsafeBufferPointer(rebasing: offered[start..<offset])
        if unsafe name.elementsEqual(wanted.utf8) { return unsafe name }
      }
    }
    return nil
  }

  private func use(_ credential: Credential) throws(CredentialError) {
    OpenSSLErrors.clear()
    guard let chain = unsafe carillon_certificates_new() else { throw .broken(OpenSSLErrors.take()) }
    // The stack borrows: SSL_CTX takes references of its own.
    defer { unsafe carillon_certificates_free(chain) }
    for certificate in credential.chain { _ = unsafe carillon_certificates_push(chain, certificate.pointer) }
    guard unsafe SSL_CTX_use_cert_and_key(pointer, credential.certificate.pointer, credential.key.pointer, chain, 1) == 1 else {
      throw .unsupported(file: "the certificate of \(CertificateFields(credential.certificate).subject)", reason: OpenSSLErrors.take())
    }
  }

  private func trust(_ trust: Trust) throws(CredentialError) {
    OpenSSLErrors.clear()
    switch trust {
    case .system:
      guard unsafe SSL_CTX_set_default_verify_paths(pointer) == 1 else { throw .broken("the system's root certificates: \(OpenSSLErrors.take())") }
    case .file(let path):
      let contents = try SecretFile.read(path)
      var authorities = try PEMReading.certificates(contents.bytes, file: path)
      if authorities.isEmpty, let certificate = X509Handle(der: contents.bytes) { authorities = [certificate] }
      guard !authorities.isEmpty else { throw .certificateMissing(file: path) }
      let store = unsafe SSL_CTX_get_cert_store(pointer)
      for authority in authorities {
        guard unsafe X509_STORE_add_cert(store, authority.pointer) == 1 else { throw .unsupported(file: path, reason: OpenSSLErrors.take()) }
      }
    }
  }
}
