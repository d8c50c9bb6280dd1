internal import PushWire

/// Makes all certificates for a simulator and its senders, in one directory.
package struct CertificateMaker: Sendable {
  /// The paths of the files.
  package struct Files: Sendable, Hashable {
    /// The CA certificate, for `trust` and for the simulator's client CA.
    package var authority: String
    /// The server's certificate, for `localhost`, 127.0.0.1, ::1 and the requested names.
    package var server: CredentialFiles
    /// One certificate for each topic, in PEM: `NAME.pem`, `NAME.key`.
    package var apps: [String: CredentialFiles]
    /// The same certificates as PKCS#12 with a passphrase file: `NAME.p12`, `NAME.pass`.
    package var appContainers: [String: CredentialFiles]
  }

  /// Creates the directory if it does not exist, and overwrites files.
  ///
  /// - Parameters:
  ///   - topics: a client certificate is made for each; the files have their names.
  ///   - passphrase: for the PKCS#12 files; default "carillon".
  ///   - now: seconds since 1970.
  package static func makeAll(
    in directory: String, topics: [String], serverNames: [String] = [], passphrase: String = "carillon",
    encryption: IssuedCertificate.PKCS12Encryption = .modern, at now: Int64
  ) throws(CredentialError) -> Files {
    try SecretFile.makeDirectory(directory)
    let authority = try CertificateAuthority(at: now)
    let server = CredentialFiles(certificate: "\(directory)/server.pem", key: "\(directory)/server.key")
    var files = Files(authority: "\(directory)/ca.pem", server: server, apps: [:], appContainers: [:])
    try authority.write(to: files.authority)
    try authority.issue(.server(names: serverNames, at: now)).writePEM(
      certificate: server.certificate, key: "\(directory)/server.key")
    for topic in topics {
      var request = CertificateRequest.app(topic: topic, at: now)
      request.environments = [.sandbox, .production]
      let issued = try authority.issue(request)
      let base = "\(directory)/\(fileName(topic))"
      try issued.writePEM(certificate: base + ".pem", key: base + ".key")
      files.apps[topic] = CredentialFiles(certificate: base + ".pem", key: base + ".key")
      try SecretFile.write(Array((passphrase + "\n").utf8), to: base + ".pass", mode: 0o600)
      try issued.writePKCS12(to: base + ".p12", passphrase: passphrase, encryption: encryption)
      files.appContainers[topic] = CredentialFiles(certificate: base + ".p12", passphraseFile: base + ".pass")
    }
    return files
  }

  /// A file name for any topic, inside the directory.
  private static func fileName(_ topic: String) -> String {
    String(topic.map { $0.isASCII && ($0.isLetter || $0.isNumber || "._-".contains($0)) ? $0 : "_" })
  }
}
