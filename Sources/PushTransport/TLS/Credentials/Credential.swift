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
    (self.certificate, self.key, self.passphraseFile) = (certificate, key, passphraseFile)
  }
}

/// The same as bytes, for programs that keep their secrets elsewhere than in files.
package struct CredentialBytes: Sendable, Hashable {
  /// PEM with the certificate, its chain, and the key unless `key` is set; or PKCS#12.
  package var certificate: [UInt8]
  /// PEM with the private key.
  package var key: [UInt8]?
  /// The passphrase of the key or of the PKCS#12 container.
  package var passphrase: [UInt8]?

  package init(certificate: [UInt8], key: [UInt8]? = nil, passphrase: [UInt8]? = nil) {
    (self.certificate, self.key, self.passphrase) = (certificate, key, passphrase)
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
    if let file = files.passphraseFile { passphrase = try SecretLine.passphrase.read(file) } else { passphrase = nil }
    return try load(
      Input(names: files, main: try SecretFile.read(files.certificate), passphrase: passphrase), validAt: unixSeconds)
  }

  /// The same from memory.
  package static func load(
    _ bytes: CredentialBytes, validAt unixSeconds: Int64?
  ) throws(CredentialError) -> Credential {
    let names = CredentialFiles(
      certificate: "the certificate in memory", key: bytes.key == nil ? nil : "the key in memory",
      passphraseFile: bytes.passphrase == nil ? nil : "memory")
    let input = Input(
      names: names, main: SecretFile.Contents(bytes: bytes.certificate), keyBytes: bytes.key,
      isInMemory: true, passphrase: bytes.passphrase)
    return try load(input, validAt: unixSeconds)
  }

  /// A credential whose certificate has been read.
  private struct Input {
    /// Where its parts come from: paths, or phrases for errors.
    let names: CredentialFiles
    let main: SecretFile.Contents
    /// The separate key, if it is in memory.
    var keyBytes: [UInt8]?
    var isInMemory = false
    let passphrase: [UInt8]?

    /// What holds the key.
    func keyContents() throws(CredentialError) -> SecretFile.Contents {
      if let keyBytes { return SecretFile.Contents(bytes: keyBytes) }
      if let file = names.key { return try SecretFile.read(file) }
      return main
    }

    func error(_ error: CredentialReadingError, _ name: String) -> CredentialError {
      error.about(name, passphraseFile: names.passphraseFile, isInMemory: isInMemory)
    }
  }

  private static func load(_ input: Input, validAt unixSeconds: Int64?) throws(CredentialError) -> Credential {
    try OpenSSLErrors.start()
    let credential: Credential
    if PEMReading.looksLikePEM(input.main.bytes) {
      credential = try loadPEM(input)
    } else {
      credential = try loadBinary(input)
    }
    if let now = unixSeconds {
      let validity = CertificateFields(credential.certificate).validity
      if now > validity.upperBound {
        throw .expired(file: input.names.certificate, on: CivilTime.describe(validity.upperBound))
      }
      if now < validity.lowerBound {
        throw .notYetValid(file: input.names.certificate, until: CivilTime.describe(validity.lowerBound))
      }
    }
    return credential
  }

  /// The content of the certificate.
  package var inspection: CertificateInspection { CertificateInspection(certificate) }

  private static func loadPEM(_ input: Input) throws(CredentialError) -> Credential {
    let (main, file) = (input.main, input.names.certificate)
    if PEMReading.hasKey(main.bytes) { try refuseIfOpen(main, file) }
    let certificates = try PEMReading.certificates(main.bytes, file: file)
    guard !certificates.isEmpty else { throw .certificateMissing(file: file) }
    return try combine(certificates, key: try loadKey(input), files: input.names)
  }

  private static func loadBinary(_ input: Input) throws(CredentialError) -> Credential {
    let (main, names) = (input.main, input.names)
    let found: PKCS12Reading.Contents
    do throws(CredentialReadingError) {
      found = try PKCS12Reading.read(main.bytes, passphrase: input.passphrase)
    } catch {
      guard case .notFound = error, let certificate = X509Handle(der: main.bytes) else {
        throw input.error(error, names.certificate)
      }
      guard names.key != nil else { throw .keyMissing(file: names.certificate) }
      return try combine([certificate], key: try loadKey(input), files: names)
    }
    guard !found.certificates.isEmpty else { throw .certificateMissing(file: names.certificate) }
    if found.key != nil { try refuseIfOpen(main, names.certificate) }
    if names.key != nil { return try combine(found.certificates, key: try loadKey(input), files: names) }
    guard let key = found.key else { throw .keyMissing(file: names.certificate) }
    return try combine(found.certificates, key: key, files: names)
  }

  private static func loadKey(_ input: Input) throws(CredentialError) -> KeyHandle {
    let name = input.names.key ?? input.names.certificate
    let contents = try input.keyContents()
    let key: KeyHandle
    do throws(CredentialReadingError) {
      key = try PEMReading.key(contents.bytes, passphrase: input.passphrase)
    } catch {
      if case .notFound = error, PEMReading.looksLikePEM(contents.bytes) { throw .keyMissing(file: name) }
      throw input.error(error, name)
    }
    try refuseIfOpen(contents, name)
    return key
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
