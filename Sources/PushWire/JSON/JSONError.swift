/// Where and why a text is not JSON.
package struct JSONError: Error, Hashable, Sendable {
  package enum Problem: Hashable, Sendable {
    case unexpectedEnd
    /// A byte that is not allowed here, for example one comma too many, a missing quote, or a word
    /// that is neither true, false nor null.
    case unexpectedByte
    case malformedNumber
    /// A byte below 0x20 inside a string.
    case controlCharacter
    case malformedEscape, invalidUTF8
    /// More nested arrays and objects than the limit allows.
    case tooDeep
    /// There is more than white space after the value.
    case trailingBytes
  }

  /// The offset in bytes, from 0. For `unexpectedEnd` it is the number of bytes.
  package let offset: Int
  package let problem: Problem
}

extension JSONError: CustomStringConvertible {
  /// A phrase such as "at byte 17 there is a malformed number".
  package var description: String { phrase(at: "byte \(offset)") }

  /// A phrase such as "at line 2, column 8 there is a malformed number".
  ///
  /// - Parameters:
  ///   - text: what was parsed.
  ///   - isLine: the text is one line of many, whose number stands elsewhere: only the column.
  package func description(in text: some Collection<UInt8>, isLine: Bool = false) -> String {
    // No editor counts a byte order mark.
    let before = text.prefix(offset).drop { [0xEF, 0xBB, 0xBF].contains($0) }
    let lineFeed = UInt8(ascii: "\n")
    let line = before.count { $0 == lineFeed } + 1
    var column = 1
    for byte in before {
      // The bytes behind the first one of a character do not count.
      if byte == lineFeed { column = 1 } else if byte & 0xC0 != 0x80 { column += 1 }
    }
    return phrase(at: isLine ? "column \(column)" : "line \(line), column \(column)")
  }

  private func phrase(at place: String) -> String {
    switch problem {
    case .unexpectedEnd: "it ends at \(place), in the middle of a value"
    case .unexpectedByte: "at \(place) there is an unexpected character"
    case .malformedNumber: "at \(place) there is a malformed number"
    case .controlCharacter: "at \(place) a string contains a control character that is not escaped"
    case .malformedEscape: "at \(place) there is a malformed escape in a string"
    case .invalidUTF8: "at \(place) it is not valid UTF-8"
    case .tooDeep: "at \(place) it is nested too deeply"
    case .trailingBytes: "at \(place) something follows the end of the value"
    }
  }
}
