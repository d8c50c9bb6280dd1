internal import Foundation
package import PushTransport
internal import PushWire

/// What a credential file holds, for machines.
package enum CredentialJSON {
  package static func text(_ inspection: CredentialInspection, at now: Int64) -> String {
    let certificate = inspection.certificate
    var json = JSONWriter()
    json.object {
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
    return json.text
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
