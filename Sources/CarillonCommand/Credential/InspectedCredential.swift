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
    do throws(CredentialError) {
      return try TokenKeyInspection.load(file: file)
    } catch {
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

  /// The content for machines.
  func json(at unixSeconds: Int64) -> String {
    switch self {
    case .certificate(let inspection): CredentialJSON.text(inspection, at: unixSeconds)
    case .tokenKey(let inspection): TokenKeyJSON.text(inspection)
    }
  }
}

/// What a credential file holds, for machines.
enum CredentialJSON {
  static func text(_ inspection: CredentialInspection, at now: Int64) -> String {
    let certificate = inspection.certificate
    return JSONWriter.text {
      $0.field("file", inspection.file)
      $0.field("format", inspection.format.rawValue)
      $0.field("subject", certificate.subject)
      $0.field("issuer", certificate.issuer)
      $0.field("serial", certificate.serial)
      $0.field("sha256", certificate.sha256)
      $0.field("topics", certificate.topics)
      $0.field("voipTopics", certificate.voipTopics)
      $0.field("environments", environments(certificate))
      $0.field("notBefore", date(certificate.validity.lowerBound))
      $0.field("notAfter", date(certificate.validity.upperBound))
      $0.field("daysLeft", certificate.daysLeft(at: now))
      $0.field("keyType", certificate.keyType)
      $0.field("key", key(inspection.key))
      $0.field("serverNames", certificate.serverNames)
      $0.field("chain", inspection.chain)
      $0.array("findings", inspection.findings) { finding, json in
        json.field("severity", finding.isFatal ? "error" : "warning")
        json.field("sentence", finding.description)
      }
    }
  }

  private static func environments(_ certificate: CertificateInspection) -> [String] {
    certificate.environments.map(\.rawValue).sorted()
  }

  private static func date(_ unixSeconds: Int64) -> String {
    Date(timeIntervalSince1970: TimeInterval(unixSeconds)).formatted(.iso8601)
  }

  private static func key(_ key: CredentialInspection.Key) -> String {
    switch key {
    case .none: "none"
    case .matches: "matches"
    case .doesNotMatch: "doesNotMatch"
    case .notOpened: "encrypted"
    }
  }
}

/// What a token signing key is, for machines.
enum TokenKeyJSON {
  static func text(_ inspection: TokenKeyInspection) -> String {
    return JSONWriter.text {
      $0.field("file", inspection.file)
      $0.field("format", "p8")
      $0.field("keyType", inspection.keyType)
      $0.field("keyID", keyIdentifier(inspection))
      $0.field("sha256", inspection.fingerprint)
      $0.field("mode", inspection.mode.map(octal))
      $0.array("findings", inspection.findings) { finding, json in
        json.field("severity", finding.isFatal ? "error" : "warning")
        json.field("sentence", finding.description)
      }
    }
  }

  private static func keyIdentifier(_ inspection: TokenKeyInspection) -> String? {
    TokenKeyFile.keyIdentifier(inNameOf: inspection.file)
  }

  private static func octal(_ mode: UInt32) -> String { "0" + String(mode, radix: 8) }
}
