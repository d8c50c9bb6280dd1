package import PushTransport

/// What a token signing key is, for machines.
package enum TokenKeyJSON {
  package static func text(_ inspection: TokenKeyInspection) -> String {
    var json = JSONWriter()
    json.object {
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
    return json.text
  }

  private static func keyIdentifier(_ inspection: TokenKeyInspection) -> String? {
    TokenKeyFile.keyIdentifier(inNameOf: inspection.file)
  }

  private static func octal(_ mode: UInt32) -> String { "0" + String(mode, radix: 8) }
}
