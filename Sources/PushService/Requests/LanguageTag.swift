/// Languages as BCP 47 writes them.
package enum LanguageTag {
  private static let byteCountLimit = 35

  /// With the usual upper and lower case: `zh-Hant-TW`. Underscores are taken for hyphens.
  ///
  /// - Returns: nil unless it has the form of a tag. Whether it is registered is not checked.
  package static func normalised(_ text: String) -> String? {
    guard text.utf8.count <= byteCountLimit else { return nil }
    let parts = text.split(omittingEmptySubsequences: false) { $0 == "-" || $0 == "_" }
    guard let first = parts.first, (2...8).contains(first.utf8.count), first.utf8.allSatisfy(isLetter) else {
      return nil
    }
    var isExtension = false
    var result = [first.lowercased()]
    for part in parts.dropFirst() {
      guard (1...8).contains(part.utf8.count), part.utf8.allSatisfy({ isLetter($0) || isDigit($0) }) else { return nil }
      let lower = part.lowercased()
      // What follows a single letter is an extension, in lower case.
      if part.utf8.count == 1 { isExtension = true }
      switch part.utf8.count {
      case 2 where !isExtension: result.append(lower.uppercased())
      case 4 where !isExtension && part.utf8.allSatisfy(isLetter):
        result.append(lower.prefix(1).uppercased() + lower.dropFirst())
      default: result.append(lower)
      }
    }
    guard parts.last?.utf8.count != 1 else { return nil }
    return result.joined(separator: "-")
  }

  /// The best key for a device's language: the tag itself, or the longest beginning of it.
  ///
  /// - Parameter variants: their keys are normalised.
  package static func best<Value>(_ language: String, in variants: [String: Value]) -> Value? {
    guard var tag = normalised(language) else { return nil }
    while true {
      if let value = variants[tag] { return value }
      guard let end = tag.lastIndex(of: "-") else { return nil }
      tag = String(tag[..<end])
    }
  }

  private static func isLetter(_ byte: UInt8) -> Bool { (65...90).contains(byte) || (97...122).contains(byte) }
  private static func isDigit(_ byte: UInt8) -> Bool { (48...57).contains(byte) }
}
