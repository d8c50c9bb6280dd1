internal import Carillon
internal import Logging
internal import PushTransport

extension Bridge {
  /// The side of the bridge in a handshake, and its certificate.
  ///
  /// - Throws: the certificate or the authorities cannot be used.
  static func context(
    _ configuration: BridgeConfiguration, validAt unixSeconds: Int64,
    judge: @escaping @Sendable (PeerIdentity, String?) -> ClientCertificatePolicy.Refusal?
  ) throws(CarillonError) -> (context: TLSContext, certificate: CertificateInspection) {
    var clients = ClientCertificatePolicy(request: .required, trust: configuration.clientAuthority.map { .file($0) })
    clients.judge = judge
    do throws(CredentialError) {
      let credential = try Credential.load(
        CredentialFiles(certificate: configuration.certificate, key: configuration.key), validAt: unixSeconds)
      var server = TLSServerConfiguration(
        credential: credential, clients: clients,
        versions: configuration.minimumTLS == .tls13 ? .tls13 ... .tls13 : .tls12 ... .tls13)
      server.oldestVersion = configuration.oldestVersion
      return (try TLSContext(server: server), credential.inspection)
    } catch {
      throw CarillonError(.credential, "The bridge: \(error)")
    }
  }

  /// Reads what a changed configuration names: apps, pinned certificates, and the bridge's own.
  /// What cannot be used stays as it was. The connections of clients that are no longer the same
  /// app's end in good order, and others stay.
  ///
  /// - Parameter tenants: with the settings that count at present.
  /// - Returns: what stays as it was, and why.
  func reload(_ changed: ServerConfiguration, tenants: [Tenant]) -> [(what: String, why: String)] {
    var problems: [(what: String, why: String)] = []
    defer { clientsChanged() }
    do throws(CarillonError) { try replace(tenants) } catch {
      problems.append(("the bridge knows its clients as before", error.message))
    }
    guard let settings = changed.bridge else { return problems }
    do throws(CarillonError) {
      if try replaceCertificate(settings) { logger.notice("the bridge has another certificate") }
    } catch {
      problems.append(("the bridge keeps its certificate", error.message))
    }
    return problems
  }
}

extension BridgeConfiguration {
  var oldestVersion: TLSServerConfiguration.OldVersion? {
    switch minimumTLS {
    case .tls10: .tls10
    case .tls11: .tls11
    case .tls12, .tls13: nil
    }
  }

  /// The files that a reload reads again.
  var files: [String] { [certificate, key, clientAuthority].compactMap { $0 } }

  /// What a reload does not change.
  var withoutFiles: BridgeConfiguration {
    var rest = self
    (rest.certificate, rest.key, rest.clientAuthority, rest.minimumTLS) = ("", nil, nil, .tls12)
    return rest
  }
}
