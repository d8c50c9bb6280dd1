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
    if PEMReading.looksLikePEM(contents.bytes) {
      format = .pem
      certificates = try PEMReading.certificates(contents.bytes, file: file)
      do throws(CredentialReadingError) {
        handle = try PEMReading.key(contents.bytes, passphrase: passphraseLine)
      } catch {
        switch error {
        case .notFound: break
        case .passphraseMissing: key = .notOpened
        default: throw error.about(file, passphraseFile: passphraseFile)
        }
      }
    } else {
      do throws(CredentialReadingError) {
        let found = try PKCS12Reading.read(contents.bytes, passphrase: passphraseLine)
        (format, certificates, handle) = (.pkcs12, found.certificates, found.key)
      } catch {
        guard case .notFound = error, let certificate = X509Handle(der: contents.bytes) else {
          throw error.about(file, passphraseFile: passphraseFile)
        }
        (format, certificates) = (.der, [certificate])
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
