/// What an app calls its users.
package enum UserName {
  package static let rule = "A user's id has up to \(lengthLimit) characters of printable ASCII, and no space."
  private static let lengthLimit = 128

  package static func isValid(_ text: String) -> Bool {
    (1...lengthLimit).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
  }
}
