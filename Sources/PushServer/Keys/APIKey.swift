internal import PushStore
internal import PushTransport

package enum Scope: String, Hashable, Sendable, CaseIterable {
  case send, campaigns, devices, feedback, read, metrics, admin
}

/// A key of the control interface as its holder has it: `car_`, what it is called, `_`, its secret.
package struct APIKey: Hashable, Sendable {
  package let id: String
  private let secret: String

  private static let idLength = 12
  private static let secretLength = 64

  /// A new key, with 256 random bits.
  package static func make() -> APIKey {
    var generator = SystemRandomNumberGenerator()
    func digits(_ count: Int) -> String {
      Digest.hexadecimal((0..<count / 2).map { _ in UInt8.random(in: 0 ... .max, using: &generator) })
    }
    return APIKey(id: digits(idLength), secret: digits(secretLength))
  }

  private init(id: String, secret: String) { (self.id, self.secret) = (id, secret) }

  package init?(_ text: some StringProtocol) {
    let parts = text.split(separator: "_", omittingEmptySubsequences: false)
    func isHexadecimal(_ text: some StringProtocol) -> Bool {
      text.utf8.allSatisfy { (48...57).contains($0) || (97...102).contains($0) }
    }
    guard parts.count == 3, parts[0] == "car", parts[1].utf8.count == Self.idLength,
      parts[2].utf8.count == Self.secretLength, isHexadecimal(parts[1]), isHexadecimal(parts[2])
    else { return nil }
    self.init(id: String(parts[1]), secret: String(parts[2]))
  }

  package var text: String { "car_\(id)_\(secret)" }

  /// What is stored of the secret.
  package var digest: [UInt8] { Digest.sha256(Array(secret.utf8)) }

  /// Takes as long whichever bytes differ.
  func matches(_ stored: StoredKey) -> Bool {
    let own = digest
    guard stored.digest.count == own.count else { return false }
    return zip(own, stored.digest).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
  }
}
