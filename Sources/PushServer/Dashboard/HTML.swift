/// A part of a page. Text becomes HTML only by being escaped.
///
/// The text of a literal is HTML. Interpolated values are escaped, unless they are ``HTML``
/// themselves: in `"<td>\(title)</td>"`, the title is escaped.
///
/// Values of attributes must stand in double quotes.
struct HTML: ExpressibleByStringInterpolation, Sendable {
  private(set) var text: String

  init(stringLiteral value: String) { text = value }
  init(stringInterpolation: StringInterpolation) { text = stringInterpolation.text }

  static let empty: HTML = ""

  static func + (first: HTML, second: HTML) -> HTML { "\(first)\(second)" }

  struct StringInterpolation: StringInterpolationProtocol {
    fileprivate var text = ""

    init(literalCapacity: Int, interpolationCount: Int) {
      text.reserveCapacity(literalCapacity + 16 * interpolationCount)
    }

    mutating func appendLiteral(_ literal: String) { text += literal }
    mutating func appendInterpolation(_ html: HTML) { text += html.text }
    mutating func appendInterpolation(_ parts: [HTML]) { for part in parts { text += part.text } }
    mutating func appendInterpolation(_ number: some BinaryInteger) { text += String(number) }

    mutating func appendInterpolation(_ value: some StringProtocol) {
      for scalar in value.unicodeScalars {
        switch scalar {
        case "&": text += "&amp;"
        case "<": text += "&lt;"
        case ">": text += "&gt;"
        case "\"": text += "&quot;"
        case "'": text += "&#39;"
        // No character of HTML, or one that changes the direction of what follows.
        case "\0"..."\u{8}", "\u{B}", "\u{C}", "\u{E}"..."\u{1F}", "\u{7F}"..."\u{9F}", "\u{202A}"..."\u{202E}",
          "\u{2066}"..."\u{2069}":
          text += "\u{FFFD}"
        default: text.unicodeScalars.append(scalar)
        }
      }
    }
  }
}

extension HTML {
  static func when(_ condition: Bool, _ part: @autoclosure () -> HTML) -> HTML { condition ? part() : .empty }
}

extension String {
  /// As one part of a path: everything else than letters, digits and `-._~` is percent-encoded.
  package var asPathSegment: String {
    var text = ""
    for byte in utf8 {
      let letter = byte | 0x20
      if (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(letter) || (48...57).contains(byte)
        || "-._~".utf8.contains(byte)
      {
        text.unicodeScalars.append(UnicodeScalar(byte))
      } else {
        let digits = String(byte, radix: 16, uppercase: true)
        text += (byte < 16 ? "%0" : "%") + digits
      }
    }
    return text
  }
}
