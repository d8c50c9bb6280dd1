internal import Carillon
internal import Foundation
internal import PushTransport
internal import PushWire

/// The content of a credential file.
enum InspectedCredential: Sendable {
  case certificate(CredentialInspection)
  case tokenKey(TokenKeyInspection)

  /// Reads a certificate (PEM, PKCS#12, DER) or a token signing key.
  ///
  /// - Parameters:
  ///   - passphraseFile: Its first line is the passphrase. A token signing key has none.
  ///   - unixSeconds: Now.
  static func load(
    file: String, passphraseFile: String?, at unixSeconds: Int64
  ) throws(CredentialError) -> InspectedCredential {
    if passphraseFile == nil, let key = try tokenKey(in: file) { return .tokenKey(key) }
    return .certificate(try CredentialInspection.load(file: file, passphraseFile: passphraseFile, at: unixSeconds))
  }

  /// The key, if the file holds a token signing key and no certificate.
  private static func tokenKey(in file: String) throws(CredentialError) -> TokenKeyInspection? {
    let isNamedLikeKey = file.lowercased().hasSuffix(".p8")
    if !isNamedLikeKey {
      do throws(CredentialError) {
        _ = try CredentialInspection.load(file: file, at: 0)
        return nil
      } catch {
        guard case .certificateMissing = error else { return nil }
      }
    }
    do throws(CredentialError) { return try TokenKeyInspection.load(file: file) } catch {
      if case .notTokenKey = error, !isNamedLikeKey { return nil }
      throw error
    }
  }

  var findings: [CredentialFinding] {
    switch self {
    case .certificate(let inspection): inspection.findings
    case .tokenKey(let inspection): inspection.findings
    }
  }

  func json(at unixSeconds: Int64) -> String {
    switch self {
    case .certificate(let inspection): inspection.json(at: unixSeconds)
    case .tokenKey(let inspection): inspection.json
    }
  }
}

extension CredentialInspection {
  fileprivate func json(at now: Int64) -> String {
    JSONWriter.text {
      $0.field("file", file)
      $0.field("format", format.rawValue)
      $0.field("subject", certificate.subject)
      $0.field("issuer", certificate.issuer)
      $0.field("serial", certificate.serial)
      $0.field("sha256", certificate.sha256)
      $0.field("topics", certificate.topics)
      $0.field("voipTopics", certificate.voipTopics)
      $0.field("environments", certificate.environmentNames)
      $0.field("notBefore", CertificateInspection.date(certificate.validity.lowerBound))
      $0.field("notAfter", CertificateInspection.date(certificate.validity.upperBound))
      $0.field("daysLeft", certificate.daysLeft(at: now))
      $0.field("keyType", certificate.keyType)
      $0.field("key", key.name)
      $0.field("serverNames", certificate.serverNames)
      $0.field("chain", chain)
      $0.findings(findings)
    }
  }
}

extension TokenKeyInspection {
  fileprivate var json: String {
    JSONWriter.text {
      $0.field("file", file)
      $0.field("format", "p8")
      $0.field("keyType", keyType)
      $0.field("keyID", TokenKeyFile.keyIdentifier(inNameOf: file))
      $0.field("sha256", fingerprint)
      $0.field("mode", octalMode)
      $0.findings(findings)
    }
  }

  var octalMode: String? { mode.map { "0" + String($0, radix: 8) } }
}

extension JSONWriter {
  fileprivate mutating func findings(_ findings: [CredentialFinding]) {
    array("findings", findings) { finding, json in
      json.field("severity", finding.isFatal ? "error" : "warning")
      json.field("sentence", finding.description)
    }
  }
}

extension CredentialInspection.Key {
  fileprivate var name: String {
    switch self {
    case .none: "none"
    case .matches: "matches"
    case .doesNotMatch: "doesNotMatch"
    case .notOpened: "encrypted"
    }
  }
}

extension CertificateInspection {
  var environmentNames: [String] { environments.map(\.rawValue).sorted() }

  static func date(_ unixSeconds: Int64) -> String {
    Date(timeIntervalSince1970: TimeInterval(unixSeconds)).formatted(.iso8601)
  }
}
