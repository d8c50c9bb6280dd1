internal import Carillon
internal import PushTransport

extension ServerConfiguration {
  /// The files that the configuration names, and that are read again by a reload.
  var credentialFiles: [String] {
    var files: [String] = []
    func add(_ credential: CredentialFiles) {
      files += [credential.certificate, credential.key, credential.passphraseFile].compactMap { $0 }
    }
    for tenant in tenants {
      files += tenant.app.credentialFiles + tenant.bridgeClients.filter { !BridgeDirectory.isDigest($0) }
    }
    if let bridge { files += bridge.files }
    if let certificate = api.certificate { add(certificate) }
    return Set(files).sorted()
  }
}
