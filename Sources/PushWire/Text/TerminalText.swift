extension String {
  /// The text with control characters, line ends, invisible characters and marks of writing
  /// direction written as `\u{1b}`.
  ///
  /// For any text of a peer or a file that becomes part of a sentence. An escape sequence in a
  /// certificate's name must not move the cursor.
  package var escapedForTerminal: String {
    guard utf8.contains(where: { !(0x20...0x7E).contains($0) }) else { return self }
    var text = ""
    for scalar in unicodeScalars {
      scalar.isShowable ? text.unicodeScalars.append(scalar) : text.append("\\u{\(String(scalar.value, radix: 16))}")
    }
    return text
  }

  /// The same for the first `count` scalars, with an ellipsis in place of the rest.
  package func escapedForTerminal(atMost count: Int) -> String {
    // A character may have any number of scalars, so scalars are counted.
    let start = unicodeScalars.prefix(count)
    return start.endIndex == unicodeScalars.endIndex ? escapedForTerminal : String(start).escapedForTerminal + "…"
  }
}

extension String {
  /// Text that already has its layout, safe for a terminal. Line ends, tabs and invisible
  /// characters stay. Control characters and marks of writing direction are written as in JSON, for
  /// example `\u001b`. So JSON text keeps its meaning.
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
  /// C0, DEL and C1 except tabs and line ends; line and paragraph separators; marks of writing
  /// direction.
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

/// How progress is shown.
package enum ProgressStyle: Hashable, Sendable {
  /// Redrawn in place, this many columns wide.
  case terminal(columns: Int)
  /// Lines that stay.
  case log
}
