package import PushTransport

/// The content of a credential file.
package enum InspectedCredential: Sendable {
  case certificate(CredentialInspection)
  case tokenKey(TokenKeyInspection)

  /// Reads a certificate (PEM, PKCS#12, DER) or a token signing key.
  ///
  /// - Parameters:
  ///   - passphraseFile: Its first line is the passphrase. A token signing key has none.
  ///   - unixSeconds: Now.
  package static func load(
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

  package var findings: [CredentialFinding] {
    switch self {
    case .certificate(let inspection): inspection.findings
    case .tokenKey(let inspection): inspection.findings
    }
  }

  /// The content for machines.
  package func json(at unixSeconds: Int64) -> String {
    switch self {
    case .certificate(let inspection): CredentialJSON.text(inspection, at: unixSeconds)
    case .tokenKey(let inspection): TokenKeyJSON.text(inspection)
    }
  }
}
