extension String {
  /// The text as a terminal may show it: control characters, line ends, invisible characters and those that change the direction of writing are
  /// written as `\u{1b}`.
  ///
  /// To be used wherever text of a peer or of a file becomes part of a sentence: an escape sequence in a certificate's name must not move the cursor.
  package var escapedForTerminal: String {
    guard utf8.contains(where: { !(0x20...0x7E).contains($0) }) else { return self }
    var text = ""
    for scalar in unicodeScalars { scalar.isShowable ? text.unicodeScalars.append(scalar) : text.append("\\u{\(String(scalar.value, radix: 16))}") }
    return text
  }

  /// The same of the first `count` characters, with an ellipsis in place of the rest.
  package func escapedForTerminal(atMost count: Int) -> String {
    // A character may consist of any number of scalars, so these are counted.
    let start = unicodeScalars.prefix(count)
    return start.endIndex == unicodeScalars.endIndex ? escapedForTerminal : String(start).escapedForTerminal + "…"
  }
}

extension String {
  /// Text that is laid out already, as a terminal may show it: line ends, tabs and invisible
  /// characters stay, control characters and marks of direction are written as JSON does, such as
  /// `\u001b`. So JSON text keeps its meaning.
  package var withControlsEscaped: String {
    guard unicodeScalars.contains(where: \.isControl) else { return self }
    var escaped = ""
    for scalar in unicodeScalars {
      if scalar.isControl {
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
  /// C0, DEL and C1, but for tabs and line ends; line and paragraph separators; marks of direction.
  fileprivate var isControl: Bool {
    switch value {
    case 0x09, 0x0A, 0x20..<0x7F: false
    case ..<0x20, 0x7F...0x9F, 0x061C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: true
    default: false
    }
  }

  fileprivate var isShowable: Bool {
    switch properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: false
    default: true
    }
  }
}
