/// The certificates of a PEM, PKCS#12 or DER file.
struct CertificateFile {
  let contents: SecretFile.Contents
  let passphrase: SecretFile.Contents?
  let format: CredentialInspection.Format
  /// The certificate that belongs to the key; if there is no key, the first one.
  let leaf: X509Handle
  /// The others.
  let chain: [X509Handle]
  let key: CredentialInspection.Key

  init(_ file: String, passphraseFile: String? = nil) throws(CredentialError) {
    try OpenSSLErrors.start()
    if let passphraseFile { passphrase = try SecretFile.read(passphraseFile) } else { passphrase = nil }
    contents = try SecretFile.read(file)
    var certificates: [X509Handle]
    var key = CredentialInspection.Key.none
    var handle: KeyHandle?
    let passphraseLine = passphrase?.firstLine
    let passphraseName = passphraseFile ?? "the passphrase file"
    if PEMReading.looksLikePEM(contents.bytes) {
      format = .pem
      certificates = try PEMReading.certificates(contents.bytes, file: file)
      switch PEMReading.key(contents.bytes, passphrase: passphraseLine) {
      case .key(let found): handle = found
      case .none: break
      case .encrypted: key = .notOpened
      case .wrongPassphrase: throw .wrongPassphrase(file: file, passphraseFile: passphraseName)
      case .derivationTooLong(let rounds): throw .derivationTooLong(file: file, rounds: rounds)
      case .damaged(let reason): throw .unsupported(file: file, reason: reason)
      }
    } else {
      switch PKCS12Reading.read(contents.bytes, passphrase: passphraseLine) {
      case .contents(let found):
        format = .pkcs12
        certificates = found.certificates
        handle = found.key
      case .passphraseMissing: throw .passphraseMissing(file: file)
      case .wrongPassphrase: throw .wrongPassphrase(file: file, passphraseFile: passphraseName)
      case .derivationTooLong(let rounds): throw .derivationTooLong(file: file, rounds: rounds)
      case .unsupported(let reason): throw .unsupported(file: file, reason: reason)
      case .notPKCS12:
        guard let certificate = X509Handle(der: contents.bytes) else { throw .notRecognised(file: file) }
        format = .der
        certificates = [certificate]
      }
    }
    guard !certificates.isEmpty else { throw .certificateMissing(file: file) }
    var leaf = 0
    if let handle {
      let match = certificates.firstIndex { $0.matches(handle) }
      key = match == nil ? .doesNotMatch : .matches
      leaf = match ?? 0
    }
    self.leaf = certificates.remove(at: leaf)
    self.key = key
    chain = certificates
  }
}
