internal import COpenSSL

/// What all connections of one kind share: credential, trust and versions. It is made once and used
/// by any number of sessions on any thread.
@safe package final class TLSContext: Sendable {
  let settings: TLSSettings
  let isServer: Bool
  let clients: ClientCertificatePolicy
  let applicationProtocols: [String]
  let tickets = TLSTickets()
  /// As ``TLSClientConfiguration/onlyCertificate``.
  let onlyCertificate: [UInt8]?
  /// A client's credential. A server's is in the settings.
  private let credential: Credential?

  package init(client configuration: TLSClientConfiguration) throws(CredentialError) {
    isServer = false
    clients = .none
    applicationProtocols = configuration.applicationProtocols
    credential = configuration.credential
    onlyCertificate = configuration.onlyCertificate
    // ALPN's format: a byte with the length precedes each name.
    settings = try TLSSettings.client(
      configuration, protocolBytes: configuration.applicationProtocols.flatMap { [UInt8($0.utf8.count)] + $0.utf8 })
    if let credential { try check(credential) }
  }

  package init(server configuration: TLSServerConfiguration) throws(CredentialError) {
    isServer = true
    clients = configuration.clients
    applicationProtocols = configuration.applicationProtocols
    credential = nil
    onlyCertificate = nil
    settings = try TLSSettings.server(configuration)
  }

  /// Detects a credential that OpenSSL does not accept now instead of at the first connection.
  private func check(_ credential: Credential) throws(CredentialError) {
    guard let ssl = unsafe SSL_new(settings.pointer) else { throw .broken(OpenSSLErrors.take()) }
    defer { unsafe SSL_free(ssl) }
    guard unsafe show(credential, on: ssl) else { throw .unusable(credential) }
  }

  /// Gives a client's session the certificate, if there is one. Returns false if OpenSSL does not
  /// accept it.
  func showCredential(on ssl: OpaquePointer) -> Bool {
    guard let credential else { return true }
    return unsafe show(credential, on: ssl)
  }

  private func show(_ credential: Credential, on ssl: OpaquePointer) -> Bool {
    unsafe credential.withChain { chain in
      unsafe SSL_use_cert_and_key(ssl, credential.certificate.pointer, credential.key.pointer, chain, 1) == 1
    }
  }

  /// The protocol that the server selects from a client's list; nil if there is none in common. The
  /// result points into the list.
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
}
