package import PushWire

/// The content of a provider certificate: its owner, topics, environments and validity.
package struct CertificateInspection: Sendable, Hashable {
  package let subject: String
  package let issuer: String
  /// Lower-case hexadecimal.
  package let serial: String
  /// The first and last second of validity, since 1970.
  package let validity: ClosedRange<Int64>
  /// Lower-case hexadecimal.
  package let sha256: String
  /// For example `RSA 2048`.
  package let keyType: String
  /// The UID of the subject: the topic of old certificates, which have only one.
  package let userIdentifier: String?
  /// All topics of the certificate without repetitions: first the UID, then those of extension
  /// 1.2.840.113635.100.6.3.6.
  package let topics: [String]
  /// The topics of the VoIP extension (1.2.840.113635.100.6.3.4).
  package let voipTopics: [String]
  /// From the extensions 1.2.840.113635.100.6.3.1 (sandbox) and .2 (production). Empty if it has
  /// neither.
  package let environments: Set<PushEnvironment>
  /// DNS names and IP addresses; used for server certificates.
  package let serverNames: [String]

  init(_ certificate: X509Handle) {
    let fields = CertificateFields(certificate)
    (subject, issuer, serial, validity) = (fields.subject, fields.issuer, fields.serial, fields.validity)
    sha256 = Digest.hexadecimal(fields.sha256)
    (keyType, userIdentifier, serverNames) = (fields.keyType, fields.userIdentifier, fields.serverNames)
    let identity = PeerIdentity(certificate)
    topics = identity.topics
    voipTopics = AppleExtension.topics(fields.extensionBytes(AppleExtension.voipTopics) ?? [])
    environments = identity.environments
  }

  /// Whole days until the certificate expires; negative after that.
  package func daysLeft(at unixSeconds: Int64) -> Int64 {
    let seconds = validity.upperBound - unixSeconds
    return seconds >= 0 ? seconds / 86_400 : -((-seconds + 86_399) / 86_400)
  }
}

/// A problem with a credential that its owner should know.
package enum CredentialFinding: Sendable, Hashable, CustomStringConvertible {
  case expired(on: Int64)
  case expiresSoon(daysLeft: Int64, on: Int64)
  case notYetValid(until: Int64)
  case noTopic, noEnvironment, noKey, keyNotOpened, keyMismatch
  case openToOthers(file: String, mode: UInt32)
  case passphraseOpenToOthers(file: String, mode: UInt32)

  /// The number of days before the expiry date at which warnings begin.
  package static let warningDays: Int64 = 30

  /// Whether the credential cannot be used at all.
  package var isFatal: Bool {
    switch self {
    case .expired, .notYetValid, .keyMismatch, .openToOthers, .passphraseOpenToOthers: true
    case .expiresSoon, .noTopic, .noEnvironment, .noKey, .keyNotOpened: false
    }
  }

  package var description: String {
    switch self {
    case .expired(let date): "expired on \(CivilTime.describe(date)); request a new certificate"
    case .expiresSoon(let days, let date):
      "expires in \(days) day\(days == 1 ? "" : "s"), on \(CivilTime.describe(date)); request a new certificate now"
    case .notYetValid(let date): "not valid before \(CivilTime.describe(date)); check this machine's clock"
    case .noTopic:
      "names no topic (neither a UID in the subject nor Apple's topics extension), "
        + "so it is not a provider certificate from Apple"
    case .noEnvironment: "does not name its environment"
    case .noKey: "the file has no private key; name the key's file when sending"
    case .keyNotOpened: "its private key is encrypted and no passphrase file was given, so the key was not checked"
    case .keyMismatch: "the private key in the file belongs to another certificate; export both again together"
    case .openToOthers(let file, let mode): CredentialError.openToOthers(file: file, mode: mode).description
    case .passphraseOpenToOthers(let file, let mode):
      CredentialError.lineOpenToOthers(.passphrase, file: file, mode: mode).description
    }
  }
}

/// The content of a credential file, even if it cannot be used for sending.
package struct CredentialInspection: Sendable, Hashable {
  package enum Format: String, Sendable, Hashable { case pem = "PEM", pkcs12 = "PKCS#12", der = "DER" }
  package enum Key: Sendable, Hashable { case none, matches, doesNotMatch, notOpened }

  package let file: String
  package let format: Format
  /// The certificate that belongs to the key; if there is no key, the first one.
  package let certificate: CertificateInspection
  /// The subjects of the other certificates in the file.
  package let chain: [String]
  package let key: Key
  /// The most severe first.
  package let findings: [CredentialFinding]

  /// Reads a PEM, PKCS#12 or DER file. An expired certificate, a missing or foreign key, and open
  /// permissions are findings, not errors.
  package static func load(
    file: String, passphraseFile: String? = nil, at unixSeconds: Int64
  ) throws(CredentialError) -> CredentialInspection {
    let found = try CertificateFile(file, passphraseFile: passphraseFile)
    let inspection = CertificateInspection(found.leaf)
    var open: [CredentialFinding] = []
    if found.key != .none, found.contents.isOpenToOthers, let mode = found.contents.mode {
      open.append(.openToOthers(file: file, mode: mode))
    }
    if let passphraseFile, let secret = found.passphrase, secret.isOpenToOthers, let mode = secret.mode {
      open.append(.passphraseOpenToOthers(file: passphraseFile, mode: mode))
    }
    return CredentialInspection(
      file: file, format: found.format, certificate: inspection,
      chain: found.chain.map { CertificateFields($0).subject }, key: found.key,
      findings: findings(inspection, key: found.key, open: open, at: unixSeconds))
  }

  private static func findings(
    _ certificate: CertificateInspection, key: Key, open: [CredentialFinding], at now: Int64
  ) -> [CredentialFinding] {
    var findings: [CredentialFinding] = []
    let end = certificate.validity.upperBound
    if now > end { findings.append(.expired(on: end)) }
    if now < certificate.validity.lowerBound { findings.append(.notYetValid(until: certificate.validity.lowerBound)) }
    if key == .doesNotMatch { findings.append(.keyMismatch) }
    findings += open
    let days = certificate.daysLeft(at: now)
    if now <= end, days < CredentialFinding.warningDays { findings.append(.expiresSoon(daysLeft: days, on: end)) }
    if certificate.topics.isEmpty { findings.append(.noTopic) }
    if certificate.environments.isEmpty { findings.append(.noEnvironment) }
    if key == .none { findings.append(.noKey) }
    if key == .notOpened { findings.append(.keyNotOpened) }
    return findings
  }
}
