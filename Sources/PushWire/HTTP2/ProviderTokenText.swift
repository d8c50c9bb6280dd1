/// The text of a provider token: a JWT with algorithm ES256, the key's identifier, the team as
/// issuer and the time of issue (HTTP2ProviderAPI.md, section 5). Signing and verifying are done
/// elsewhere.
package struct ProviderTokenText: Hashable, Sendable {
  /// `kid`.
  package let keyIdentifier: String
  /// `iss`.
  package let teamIdentifier: String
  /// `iat`, in seconds since 1970.
  package let issuedAt: Int64
  /// Whether `iat` has a fraction, as one library writes it (PyPI apns2). The service was seen to
  /// accept it.
  package let hasFractionalTime: Bool
  /// The signed bytes: the first two parts with the dot between them.
  package let signingInput: [UInt8]
  package let signature: [UInt8]

  /// The bytes to sign for a new token.
  package static func signingInput(keyIdentifier: String, teamIdentifier: String, issuedAt: Int64) -> [UInt8] {
    let header = JSONValue.object([JSONMember("alg", .string("ES256")), JSONMember("kid", .string(keyIdentifier))])
    let claims = JSONValue.object([
      JSONMember("iss", .string(teamIdentifier)), JSONMember("iat", .number(String(issuedAt))),
    ])
    return Base64URL.encode(header.encoded) + [dot] + Base64URL.encode(claims.encoded)
  }

  /// The token with this signature.
  package static func text(signingInput: [UInt8], signature: [UInt8]) -> String {
    String(decoding: signingInput + [dot] + Base64URL.encode(signature), as: UTF8.self)
  }

  private static let dot = UInt8(ascii: ".")
  /// The longest token that is read, in bytes. The service's own kind has about 200.
  package static let byteCountLimit = 4096

  /// Reads a token from another party.
  package init(parsing bytes: [UInt8]) throws(ProviderTokenError) {
    guard bytes.count <= Self.byteCountLimit else { throw .notJWT }
    let parts = bytes.split(separator: Self.dot, omittingEmptySubsequences: false)
    guard parts.count == 3, let header = Self.object(parts[0]), let claims = Self.object(parts[1]),
      let signature = Base64URL.decode(parts[2])
    else {
      throw .notJWT
    }
    guard case .string("ES256") = header["alg"] else { throw .otherAlgorithm }
    guard case .string(let keyIdentifier) = header["kid"] else { throw .keyIdentifierMissing }
    guard case .string(let teamIdentifier) = claims["iss"] else { throw .issuerMissing }
    guard case .number(let time) = claims["iat"], let seconds = Double(time), seconds.magnitude < 1e15 else {
      throw .timeMissing
    }
    (self.keyIdentifier, self.teamIdentifier) = (keyIdentifier, teamIdentifier)
    issuedAt = Int64(seconds.rounded(.down))
    hasFractionalTime = seconds != seconds.rounded(.down) || time.utf8.contains(UInt8(ascii: "."))
    signingInput = Array(bytes[..<(parts[2].startIndex - 1)])
    self.signature = signature
  }

  private static func object(_ part: ArraySlice<UInt8>) -> [String: JSONValue]? {
    guard let bytes = Base64URL.decode(part), case .object(let members)? = try? JSONValue(parsing: bytes[...]) else {
      return nil
    }
    return Dictionary(members.map { ($0.key, $0.value) }, uniquingKeysWith: { first, _ in first })
  }
}

/// Why a text is not a provider token.
package enum ProviderTokenError: Error, Hashable, Sendable, CustomStringConvertible {
  case notJWT, otherAlgorithm, keyIdentifierMissing, issuerMissing, timeMissing

  package var description: String {
    switch self {
    case .notJWT: "The provider token is not a JWT: three parts in base64url, the first two of them JSON objects."
    case .otherAlgorithm: "The provider token's algorithm (alg) is not ES256."
    case .keyIdentifierMissing: "The provider token does not name its key (kid)."
    case .issuerMissing: "The provider token does not name its team (iss)."
    case .timeMissing: "The provider token does not contain the time of issue as a number (iat)."
    }
  }
}
