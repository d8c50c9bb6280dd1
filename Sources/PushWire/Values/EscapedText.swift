extension String {
  /// With every control character as an escape such as `\u001b`. Certificates, services and token
  /// files choose the text that messages quote, and a terminal would obey what it says.
  ///
  /// The escapes are JSON's, so JSON text keeps its meaning.
  ///
  /// - Parameter keepsLines: line ends and tabs stay, for text that is laid out already.
  package func escapingControls(keepsLines: Bool = false) -> String {
    guard unicodeScalars.contains(where: { $0.isControl(keepsLines: keepsLines) }) else { return self }
    var escaped = ""
    for scalar in unicodeScalars {
      if scalar.isControl(keepsLines: keepsLines) {
        let digits = String(scalar.value, radix: 16)
        escaped += "\\u" + String(repeating: "0", count: max(0, 4 - digits.utf8.count)) + digits
      } else {
        escaped.unicodeScalars.append(scalar)
      }
    }
    return escaped
  }
}

extension Unicode.Scalar {
  /// C0, DEL and C1; line and paragraph separators; and what changes the direction of text, which
  /// can make one sentence look like another.
  fileprivate func isControl(keepsLines: Bool) -> Bool {
    switch value {
    case 0x09, 0x0A: !keepsLines
    case 0x20..<0x7F: false
    case ..<0x20, 0x7F...0x9F, 0x061C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: true
    default: false
    }
  }
}
