internal import PushEngine

/// Tags of languages as RFC 5646 has them, such as `pt-BR`.
enum LanguageTag {
  private static let byteLimit = 35

  /// In lower case, with hyphens; nil for what cannot be one.
  static func canonical(_ text: String) -> String? {
    let parts = text.lowercased().split(omittingEmptySubsequences: false) { $0 == "-" || $0 == "_" }
    let isTag = parts.allSatisfy { part in
      (1...8).contains(part.utf8.count)
        && part.utf8.allSatisfy { (97...122).contains($0) || (48...57).contains($0) }
    }
    guard isTag, text.utf8.count <= byteLimit, let first = parts.first, first.utf8.count >= 2 else { return nil }
    return parts.joined(separator: "-")
  }

  /// The best key for a device's language: the tag itself, or the longest beginning of it.
  static func best<Value>(_ language: String, in variants: [String: Value]) -> Value? {
    guard var tag = canonical(language) else { return nil }
    while true {
      if let value = variants[tag] { return value }
      guard let end = tag.lastIndex(of: "-") else { return nil }
      tag = String(tag[..<end])
    }
  }
}

enum PayloadPlaceholders {
  /// Empty also for what is no payload.
  static func names(in payload: [UInt8]) -> [String] { (try? PayloadTemplate(parsing: payload))?.columns ?? [] }
}
