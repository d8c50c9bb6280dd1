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
    case malformedEscape
    case invalidUTF8
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
  package var description: String {
    switch problem {
    case .unexpectedEnd: "it ends at byte \(offset), in the middle of a value"
    case .unexpectedByte: "at byte \(offset) there is an unexpected character"
    case .malformedNumber: "at byte \(offset) there is a malformed number"
    case .controlCharacter: "at byte \(offset) a string contains a control character that is not escaped"
    case .malformedEscape: "at byte \(offset) there is a malformed escape in a string"
    case .invalidUTF8: "at byte \(offset) it is not valid UTF-8"
    case .tooDeep: "at byte \(offset) it is nested too deeply"
    case .trailingBytes: "at byte \(offset) something follows the end of the value"
    }
  }
}
