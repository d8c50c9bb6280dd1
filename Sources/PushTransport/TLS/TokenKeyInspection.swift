/// The content of a `.p8` file, even if it cannot be used for sending. Nothing is signed with it.
package struct TokenKeyInspection: Sendable, Hashable {
  package let file: String
  /// For example `EC P-256`, the only kind that signs provider tokens.
  package let keyType: String
  /// See ``ProviderKey/fingerprint``.
  package let fingerprint: String
  /// The permission bits of the file; nil if it is not a regular file.
  package let mode: UInt32?
  package let findings: [CredentialFinding]

  /// Reads a token signing key. Open permissions are a finding, not an error.
  package static func load(file: String) throws(CredentialError) -> TokenKeyInspection {
    let contents = try SecretFile.read(file)
    let fingerprint = try ProviderKey.fingerprint(contents.bytes, file: file)
    var findings: [CredentialFinding] = []
    if contents.isOpenToOthers, let mode = contents.mode { findings.append(.openToOthers(file: file, mode: mode)) }
    return TokenKeyInspection(
      file: file, keyType: "EC P-256", fingerprint: fingerprint, mode: contents.mode, findings: findings)
  }
}

extension ProviderKey {
  static func fingerprint(_ bytes: [UInt8], file: String) throws(CredentialError) -> String {
    ProviderPublicKey(try readKey(bytes, file: file)).fingerprint
  }
}
