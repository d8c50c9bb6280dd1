internal import COpenSSL

/// The files of a certificate and its key. Their content decides whether they are PEM or PKCS#12.
package struct CredentialFiles: Sendable, Hashable, Codable {
  /// PEM with the certificate, its chain, and the key unless `key` names another file; or PKCS#12;
  /// or a DER certificate if `key` is set.
  package var certificate: String
  /// PEM with the private key.
  package var key: String?
  /// A file whose first line is the passphrase of the key or of the PKCS#12 file.
  package var passphraseFile: String?

  package init(certificate: String, key: String? = nil, passphraseFile: String? = nil) {
    self.certificate = certificate
    self.key = key
    self.passphraseFile = passphraseFile
  }
}

/// A certificate with its chain and the private key that belongs to it, which one side of a TLS
/// connection presents.
package struct Credential: Sendable {
  let certificate: X509Handle
  let chain: [X509Handle]
  let key: KeyHandle

  /// Reads and checks a credential.
  ///
  /// Only the owner may have access to a file with a private key or a passphrase (`mode & 077 ==
  /// 0`).
  ///
  /// - Parameter unixSeconds: the time at which the certificate must be valid; nil: not checked.
  package static func load(_ files: CredentialFiles, validAt unixSeconds: Int64?) throws(CredentialError) -> Credential
  {
    let passphrase: [UInt8]?
    if let file = files.passphraseFile { passphrase = try SecretFile.readPassphrase(file) } else { passphrase = nil }
    let main = try SecretFile.read(files.certificate)

    let credential: Credential
    if PEMReading.looksLikePEM(main.bytes) {
      credential = try loadPEM(main, files: files, passphrase: passphrase)
    } else {
      credential = try loadBinary(main, files: files, passphrase: passphrase)
    }
    if let now = unixSeconds {
      let validity = CertificateFields(credential.certificate).validity
      if now > validity.upperBound {
        throw .expired(file: files.certificate, on: CivilTime.describe(validity.upperBound))
      }
      if now < validity.lowerBound {
        throw .notYetValid(file: files.certificate, until: CivilTime.describe(validity.lowerBound))
      }
    }
    return credential
  }

  /// The content of the certificate.
  package var inspection: CertificateInspection { CertificateInspection(certificate) }

  private static func loadPEM(
    _ main: SecretFile.Contents, files: CredentialFiles, passphrase: [UInt8]?
  ) throws(CredentialError) -> Credential {
    if PEMReading.hasKey(main.bytes) { try refuseIfOpen(main, files.certificate) }
    let certificates = try PEMReading.certificates(main.bytes, file: files.certificate)
    guard !certificates.isEmpty else { throw .certificateMissing(file: files.certificate) }
    return try combine(certificates, key: try loadKey(files, main: main, passphrase: passphrase), files: files)
  }

  private static func loadBinary(
    _ main: SecretFile.Contents, files: CredentialFiles, passphrase: [UInt8]?
  ) throws(CredentialError) -> Credential {
    switch PKCS12Reading.read(main.bytes, passphrase: passphrase) {
    case .contents(let found):
      guard !found.certificates.isEmpty else { throw .certificateMissing(file: files.certificate) }
      if found.key != nil { try refuseIfOpen(main, files.certificate) }
      if let path = files.key {
        return try combine(
          found.certificates, key: try loadKey(files, main: try SecretFile.read(path), passphrase: passphrase),
          files: files)
      }
      guard let key = found.key else { throw .keyMissing(file: files.certificate) }
      return try combine(found.certificates, key: key, files: files)
    case .passphraseMissing: throw .passphraseMissing(file: files.certificate)
    case .wrongPassphrase:
      throw .wrongPassphrase(file: files.certificate, passphraseFile: files.passphraseFile ?? "the passphrase file")
    case .derivationTooLong(let rounds): throw .derivationTooLong(file: files.certificate, rounds: rounds)
    case .unsupported(let reason): throw .unsupported(file: files.certificate, reason: reason)
    case .notPKCS12:
      guard let certificate = X509Handle(der: main.bytes) else { throw .notRecognised(file: files.certificate) }
      guard files.key != nil else { throw .keyMissing(file: files.certificate) }
      return try combine([certificate], key: try loadKey(files, main: main, passphrase: passphrase), files: files)
    }
  }

  private static func loadKey(
    _ files: CredentialFiles, main: SecretFile.Contents, passphrase: [UInt8]?
  ) throws(CredentialError) -> KeyHandle {
    let path = files.key ?? files.certificate
    let contents: SecretFile.Contents
    if let key = files.key { contents = try SecretFile.read(key) } else { contents = main }
    switch PEMReading.key(contents.bytes, passphrase: passphrase) {
    case .key(let key):
      try refuseIfOpen(contents, path)
      return key
    case .none: throw PEMReading.looksLikePEM(contents.bytes) ? .keyMissing(file: path) : .notRecognised(file: path)
    case .encrypted: throw .passphraseMissing(file: path)
    case .wrongPassphrase:
      throw .wrongPassphrase(file: path, passphraseFile: files.passphraseFile ?? "the passphrase file")
    case .derivationTooLong(let rounds): throw .derivationTooLong(file: path, rounds: rounds)
    case .damaged(let reason): throw .unsupported(file: path, reason: reason)
    }
  }

  /// The certificate that belongs to the key comes first, wherever it stands in the file. The
  /// others follow as its chain.
  private static func combine(
    _ certificates: [X509Handle], key: KeyHandle, files: CredentialFiles
  ) throws(CredentialError) -> Credential {
    guard let leaf = certificates.firstIndex(where: { $0.matches(key) }) else {
      throw .keyMismatch(certificateFile: files.certificate, keyFile: files.key ?? files.certificate)
    }
    var chain = certificates
    let certificate = chain.remove(at: leaf)
    return Credential(certificate: certificate, chain: chain, key: key)
  }

  private static func refuseIfOpen(_ contents: SecretFile.Contents, _ path: String) throws(CredentialError) {
    if contents.isOpenToOthers, let mode = contents.mode { throw .openToOthers(file: path, mode: mode) }
  }
}
