package import PushTransport

/// How an app proves to its gateway who it is. Files are named by their paths, and read when they
/// are needed.
package enum AppCredential: Hashable, Sendable, Codable {
  case certificate(CredentialFiles)
  /// HTTP/2 only.
  case tokenKey(TokenKeyFile)
  case certificateInMemory(Secret<CredentialBytes>)
  /// HTTP/2 only. The content of a `.p8` file.
  case tokenKeyInMemory(Secret<[UInt8]>, keyIdentifier: String, teamIdentifier: String)

  /// Of a token key; nil for a certificate.
  package var keyIdentifier: String? {
    switch self {
    case .certificate, .certificateInMemory: nil
    case .tokenKey(let key): key.keyIdentifier
    case .tokenKeyInMemory(_, let identifier, _): identifier
    }
  }

  /// The same credential with every path changed.
  package func mapPaths(_ change: (String) -> String) -> AppCredential {
    switch self {
    case .certificate(var files):
      files.certificate = change(files.certificate)
      files.key = files.key.map(change)
      files.passphraseFile = files.passphraseFile.map(change)
      return .certificate(files)
    case .tokenKey(var key):
      key.file = change(key.file)
      return .tokenKey(key)
    case .certificateInMemory, .tokenKeyInMemory: return self
    }
  }
}

/// Key material in memory. It is never printed, and never encoded: a journal must not hold it.
package struct Secret<Value: Hashable & Sendable>: Hashable, Sendable, Codable, CustomStringConvertible,
  CustomReflectable
{
  let value: Value

  init(_ value: Value) { self.value = value }

  package init(from decoder: any Decoder) throws {
    throw DecodingError.dataCorrupted(
      DecodingError.Context(codingPath: decoder.codingPath, debugDescription: "a secret is never written down"))
  }

  package func encode(to encoder: any Encoder) throws {
    throw EncodingError.invalidValue(
      self, EncodingError.Context(codingPath: encoder.codingPath, debugDescription: "a secret is never written down"))
  }

  package var description: String { "(secret)" }
  package var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// A key for provider tokens, as the developer account hands it out.
package struct TokenKeyFile: Hashable, Sendable, Codable {
  package var file: String
  package var keyIdentifier: String
  package var teamIdentifier: String

  package init(file: String, keyIdentifier: String, teamIdentifier: String) {
    (self.file, self.keyIdentifier, self.teamIdentifier) = (file, keyIdentifier, teamIdentifier)
  }

  /// What the name of the file says, as the developer account gives it: `AuthKey_ABC123DEFG.p8`.
  /// Nil for any other name.
  package static func keyIdentifier(inNameOf file: String) -> String? {
    let name = file.split(separator: "/").last ?? ""
    guard name.hasPrefix("AuthKey_"), name.hasSuffix(".p8") else { return nil }
    let identifier = name.dropFirst(8).dropLast(3)
    let isPlain = identifier.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) }
    return identifier.utf8.count == 10 && isPlain ? String(identifier) : nil
  }
}
