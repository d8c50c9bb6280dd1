package import Carillon
internal import Foundation
internal import PushTransport
internal import PushWire

/// Where the outcomes of an app are delivered, over HTTPS.
package struct Webhook: Hashable, Sendable, CustomStringConvertible {
  package var endpoint: Endpoint
  /// With its query, as it is written in a request.
  package var target: String
  /// Its first line signs deliveries.
  package var secretFile: String
  /// Signs them too, while receivers change from one to the other. Nil: there is none.
  package var previousSecretFile: String?
  /// A PEM file with the authorities that the receiver's certificate is checked against. Nil: the
  /// system's.
  package var trustedAuthorities: String?
  /// Whether the receiver may be on this machine, or in a private or link-local network.
  package var isPrivate = false

  /// The target may be secret, so it is left out.
  package var description: String { "https://\(endpoint)" }

  private static let urlByteCountLimit = 2048

  /// Reads `https://host:port/path`. The text is not repeated in an error, because it may be
  /// secret.
  package init(url: String, secretFile: String) throws(ValueError) {
    let form = "https://host/path, or with a port, and of at most \(Self.urlByteCountLimit) bytes"
    guard url.utf8.count <= Self.urlByteCountLimit,
      let parts = URLComponents(string: url, encodingInvalidCharacters: false),
      parts.scheme?.lowercased() == "https", let name = parts.encodedHost, !name.isEmpty,
      name.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "%") })
    else { throw ValueError("must be \(form)") }
    guard parts.user == nil, parts.password == nil else {
      throw ValueError("has a username in its URL; a receiver knows the service by its signature")
    }
    guard parts.fragment == nil else { throw ValueError("has a fragment (\"#\"), which no receiver gets") }
    let port = parts.port ?? 443
    let host = name.hasPrefix("[") && name.hasSuffix("]") ? String(name.dropFirst().dropLast()) : name
    guard (1...65535).contains(port) else { throw ValueError("must be \(form)") }
    endpoint = Endpoint(host: host, port: port)
    let path = parts.percentEncodedPath
    target = (path.isEmpty ? "/" : path) + (parts.percentEncodedQuery.map { "?\($0)" } ?? "")
    self.secretFile = secretFile
  }

  /// What deliveries are signed with at present: the files may have changed.
  func secrets() throws(CredentialError) -> [[UInt8]] {
    var secrets = [try SecretLine.secret.read(secretFile)]
    if let previousSecretFile { secrets.append(try SecretLine.secret.read(previousSecretFile)) }
    return secrets
  }

  /// For connections to the receiver.
  func context() throws(CredentialError) -> TLSContext {
    try TLSContext(
      client: TLSClientConfiguration(credential: nil, trust: trustedAuthorities.map(Trust.file) ?? .system))
  }
}

extension Webhook {
  /// `{ url, secret-file, previous-secret-file, trust, private }`.
  init(_ node: YAMLNode) throws(ConfigurationError) {
    var reader = try YAMLReader(node)
    let url = try reader.require("url", example: "https://example.com/outcomes")
    let secret = try reader.require("secret-file", example: "webhook.secret").filePath()
    let text = try url.text()
    do throws(ValueError) { self = try Webhook(url: text, secretFile: secret) } catch {
      throw url.error(error.problem)
    }
    previousSecretFile = try reader.take("previous-secret-file")?.filePath()
    trustedAuthorities = try reader.take("trust")?.filePath()
    if let value = reader.take("private") { isPrivate = try value.word(of: ["true", "false"]) == "true" }
    try reader.finish()
  }
}
