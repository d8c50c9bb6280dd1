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

extension Unicode.Scalar {
  fileprivate var isShowable: Bool {
    switch properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: false
    default: true
    }
  }
}
