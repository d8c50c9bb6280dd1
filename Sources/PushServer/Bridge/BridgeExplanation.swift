package import Carillon
internal import PushTransport

/// Which app a client of the bridge would be, without a connection.
package enum BridgeExplanation {
  /// - Parameters:
  ///   - file: the client's certificate.
  ///   - unixSeconds: now.
  /// - Returns: whether it would be accepted, and a sentence.
  /// - Throws: the configuration has no bridge, or a certificate cannot be read.
  package static func explain(
    _ file: String, _ configuration: ServerConfiguration, at unixSeconds: UInt32
  ) throws(CarillonError) -> (isAccepted: Bool, text: String) {
    guard let bridge = configuration.bridge else {
      throw CarillonError(.configuration, "The configuration has no bridge.")
    }
    let directory = try BridgeDirectory(configuration.tenants, at: Int64(unixSeconds))
    let (certificate, distrust): (CertificateInspection, String?)
    do throws(CredentialError) {
      certificate = try CredentialInspection.load(file: file, at: Int64(unixSeconds)).certificate
      distrust =
        if let authorities = bridge.clientAuthority {
          try ClientCertificateCheck.distrust(
            file, authorities: .file(authorities), oldestVersion: bridge.oldestVersion)
        } else {
          "no authority is configured for clients"
        }
    } catch {
      throw CarillonError(.credential, "\(error).")
    }
    let answer = directory.answer(
      fingerprint: certificate.sha256, topics: certificate.topics, environments: certificate.environments,
      distrust: distrust)
    switch answer {
    case .app(let app, let reason):
      return (true, "\(certificate.subject) is a client of \(app): \(reason).")
    case .refused(let reason):
      return (false, "\(certificate.subject) is refused: \(reason).")
    }
  }
}
