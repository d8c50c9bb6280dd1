internal import COpenSSL
package import PushWire

/// The content of a certificate to be made. Only for throw-away certificates of simulators,
/// demonstrations and tests.
package struct CertificateRequest: Sendable {
  package enum Usage: Sendable { case server, client }
  package enum KeyAlgorithm: Sendable, CaseIterable { case ecP256, rsa2048 }

  package var commonName: String
  package var usage: Usage
  package var keyAlgorithm = KeyAlgorithm.ecP256
  /// The UID of the subject; in a provider certificate, its topic.
  package var userIdentifier: String?
  /// DNS names and IP addresses.
  package var serverNames: [String] = []
  /// The topics of Apple's topics extension.
  package var topics: [String] = []
  package var voipTopics: [String] = []
  package var environments: Set<PushEnvironment> = []
  /// The first and last second of validity, since 1970.
  package var validity: ClosedRange<Int64>

  package init(commonName: String, usage: Usage, validity: ClosedRange<Int64>) {
    (self.commonName, self.usage, self.validity) = (commonName, usage, validity)
  }

  /// A server certificate for `localhost`, 127.0.0.1, ::1 and the names given.
  package static func server(names: [String] = [], at now: Int64) -> CertificateRequest {
    var request = CertificateRequest(commonName: "localhost", usage: .server, validity: lasting(from: now))
    request.serverNames =
      ["localhost", "127.0.0.1", "::1"] + names.filter { !["localhost", "127.0.0.1", "::1"].contains($0) }
    return request
  }

  /// A certificate for one app. The topic is its UID and part of its common name, as in Apple's old
  /// provider certificates.
  package static func app(topic: String, at now: Int64) -> CertificateRequest {
    var request = CertificateRequest(
      commonName: "Apple Push Services: \(topic)", usage: .client, validity: lasting(from: now))
    request.userIdentifier = topic
    return request
  }

  /// One year, as Apple's certificates have, beginning an hour ago because clocks differ.
  package static func lasting(from now: Int64) -> ClosedRange<Int64> { (now - 3600)...(now + 365 * 86_400) }
}

/// A certificate authority that is made in memory.
package final class CertificateAuthority: Sendable {
  private let certificate: X509Handle
  private let key: KeyHandle

  /// Makes an authority that is valid a little longer than the certificates of
  /// ``CertificateRequest/lasting(from:)``.
  package init(
    commonName: String = "Carillon throw-away authority", keyAlgorithm: CertificateRequest.KeyAlgorithm = .ecP256,
    at now: Int64
  ) throws(CredentialError) {
    let validity = CertificateRequest.lasting(from: now)
    key = try CertificateBuilding.makeKey(keyAlgorithm)
    let builder = try CertificateBuilding(
      key: key, validity: (validity.lowerBound - 400 * 86_400)...(validity.upperBound + 86_400))
    try builder.setSubject(commonName: commonName, userIdentifier: nil)
    try builder.setIssuer(nil)
    try builder.addExtension(NID_basic_constraints, "critical,CA:TRUE")
    try builder.addExtension(NID_key_usage, "critical,keyCertSign,cRLSign")
    try builder.addExtension(NID_subject_key_identifier, "hash")
    certificate = try builder.sign(with: key)
  }

  /// Makes a key and a certificate for it.
  package func issue(_ request: CertificateRequest) throws(CredentialError) -> IssuedCertificate {
    let subjectKey = try CertificateBuilding.makeKey(request.keyAlgorithm)
    let builder = try CertificateBuilding(key: subjectKey, validity: request.validity)
    try builder.setSubject(commonName: request.commonName, userIdentifier: request.userIdentifier)
    try builder.setIssuer(certificate)
    try builder.addExtension(NID_basic_constraints, "critical,CA:FALSE")
    try builder.addExtension(NID_key_usage, "critical,digitalSignature")
    try builder.addExtension(NID_ext_key_usage, request.usage == .server ? "serverAuth" : "clientAuth")
    try builder.addExtension(NID_subject_key_identifier, "hash")
    try builder.addExtension(NID_authority_key_identifier, "keyid", issuer: certificate)
    if !request.serverNames.isEmpty {
      try builder.addExtension(
        NID_subject_alt_name,
        request.serverNames.map { (CertificateBuilding.isAddress($0) ? "IP:" : "DNS:") + $0 }.joined(separator: ","))
    }
    if !request.topics.isEmpty {
      try builder.addExtension(AppleExtension.topics, AppleExtension.encode(topics: request.topics, kind: "app"))
    }
    if !request.voipTopics.isEmpty {
      try builder.addExtension(
        AppleExtension.voipTopics, AppleExtension.encode(topics: request.voipTopics, kind: "voip"))
    }
    // An ASN.1 NULL: the extension has no content.
    if request.environments.contains(.sandbox) { try builder.addExtension(AppleExtension.sandbox, [0x05, 0x00]) }
    if request.environments.contains(.production) { try builder.addExtension(AppleExtension.production, [0x05, 0x00]) }
    return IssuedCertificate(
      credential: Credential(certificate: try builder.sign(with: key), chain: [], key: subjectKey),
      authority: certificate)
  }

  package var inspection: CertificateInspection { CertificateInspection(certificate) }

  /// Writes the authority's certificate, without its key, in PEM.
  package func write(to path: String) throws(CredentialError) {
    guard let pem = certificate.pem else { throw .broken(OpenSSLErrors.take()) }
    try SecretFile.write(pem, to: path, mode: 0o644)
  }
}

/// A certificate with its key, made by a ``CertificateAuthority``.
package struct IssuedCertificate: Sendable {
  package enum PKCS12Encryption: Sendable, CaseIterable {
    /// AES-256, SHA-256.
    case modern
    /// RC2-40 for certificates, triple DES for the key, SHA-1, as in Keychain's exports.
    case legacy
  }

  package let credential: Credential
  private let authority: X509Handle

  init(credential: Credential, authority: X509Handle) {
    (self.credential, self.authority) = (credential, authority)
  }

  /// Writes PEM files, the key's with mode 0600. A passphrase encrypts the key. If the paths are
  /// the same, both go into one file with mode 0600.
  package func writePEM(
    certificate path: String, key keyPath: String, passphrase: String? = nil
  ) throws(CredentialError) {
    guard let certificate = credential.certificate.pem, let key = credential.key.pem(passphrase: passphrase) else {
      throw .broken(OpenSSLErrors.take())
    }
    if path == keyPath {
      try SecretFile.write(certificate + key, to: path, mode: 0o600)
    } else {
      try SecretFile.write(certificate, to: path, mode: 0o644)
      try SecretFile.write(key, to: keyPath, mode: 0o600)
    }
  }

  /// Writes a PKCS#12 file (mode 0600) with certificate, key and authority.
  package func writePKCS12(
    to path: String, passphrase: String, encryption: PKCS12Encryption = .modern
  ) throws(CredentialError) {
    OpenSSLErrors.clear()
    var libraryContext: OpaquePointer?
    if encryption == .legacy {
      guard let legacy = LegacyProvider.shared else { throw .broken("this OpenSSL has no legacy module") }
      unsafe libraryContext = unsafe legacy.libraryContext
    }
    guard let others = unsafe carillon_certificates_new() else { throw .broken(OpenSSLErrors.take()) }
    defer { unsafe carillon_certificates_free(others) }
    _ = unsafe carillon_certificates_push(others, authority.pointer)
    // The MAC is set separately, because the old format demands SHA-1.
    let made = unsafe PKCS12_create_ex(
      passphrase, CertificateFields(credential.certificate).commonName, credential.key.pointer,
      credential.certificate.pointer, others,
      encryption == .legacy ? NID_pbe_WithSHA1And3_Key_TripleDES_CBC : NID_aes_256_cbc,
      encryption == .legacy ? NID_pbe_WithSHA1And40BitRC2_CBC : NID_aes_256_cbc, Int32(PKCS12_DEFAULT_ITER), -1, 0,
      libraryContext, nil)
    guard let container = unsafe made else { throw .broken(OpenSSLErrors.take()) }
    defer { unsafe PKCS12_free(container) }
    let digest = unsafe encryption == .legacy ? EVP_sha1() : EVP_sha256()
    guard unsafe PKCS12_set_mac(container, passphrase, -1, nil, 0, Int32(PKCS12_DEFAULT_ITER), digest) == 1,
      let bytes = unsafe bytesWritten({ unsafe i2d_PKCS12_bio($0, container) == 1 })
    else { throw .broken(OpenSSLErrors.take()) }
    try SecretFile.write(bytes, to: path, mode: 0o600)
  }
}
