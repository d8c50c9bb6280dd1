package import PushTransport

extension GatewaySimulator {
  /// The certificates that the services present, and the client certificates that they accept.
  struct Contexts {
    let gateway: TLSContext
    let feedback: TLSContext
    let http2: TLSContext

    init(
      _ configuration: Configuration, credential: Credential, clientAuthority: String?,
      gateway simulated: SimulatedGateway
    ) throws(CredentialError) {
      let clients = ClientCertificatePolicy(
        request: configuration.requiresClientCertificate ? .required : .optional,
        trust: clientAuthority.map { .file($0) })
      var choosyClients = clients
      if configuration.rules.refusesCertificates || configuration.mayRefuseCertificates {
        choosyClients.refuse = { simulated.refusesCertificate(topic: Topic.of($0)) ? .unknown : nil }
      }
      var choosy = TLSServerConfiguration(credential: credential, clients: choosyClients)
      choosy.sendsTickets = configuration.sendsTickets
      var http2 = choosy
      // A provider token can replace the certificate.
      http2.clients.request = .optional
      http2.applicationProtocols = [ApplicationProtocol.http2]
      gateway = try TLSContext(server: choosy)
      feedback = try TLSContext(server: TLSServerConfiguration(credential: credential, clients: clients))
      self.http2 = try TLSContext(server: http2)
    }
  }

  /// The keys that verify provider tokens, and the one that was made when none was given.
  static func tokenKeys(
    _ configuration: Configuration
  ) throws(CredentialError) -> (keys: [ServiceKey], throwAway: ServiceSettings.KeyFile?) {
    var files = configuration.rules.service.keys + configuration.tokenKeys
    var throwAway: ServiceSettings.KeyFile?
    if files.isEmpty, case .throwAway(let directory, _) = configuration.identity {
      let made = try ServiceSettings.KeyFile.makeThrowAway(in: directory)
      throwAway = made
      files = [made]
    }
    var keys: [ServiceKey] = []
    for file in files {
      keys.append(
        ServiceKey(
          keyIdentifier: file.keyIdentifier, teamIdentifier: file.teamIdentifier,
          key: try ProviderPublicKey.load(file: file.file), topics: file.topics))
    }
    return (keys, throwAway)
  }
}

extension ServiceSettings.KeyFile {
  /// Makes a key in a directory, `AuthKey_CARILLON01.p8`, with identifiers that Apple does not
  /// assign.
  package static func makeThrowAway(in directory: String) throws(CredentialError) -> ServiceSettings.KeyFile {
    let key = try ProviderKey.make(keyIdentifier: "CARILLON01", teamIdentifier: "THROWAWAY1")
    let path = "\(directory)/AuthKey_\(key.keyIdentifier).p8"
    try key.write(to: path)
    return ServiceSettings.KeyFile(file: path, keyIdentifier: key.keyIdentifier, teamIdentifier: key.teamIdentifier)
  }
}
