internal import PushWire

/// A payload with placeholders such as `{{name}}`. Each stands for the column of that name in the
/// token file.
///
/// A placeholder stands inside a JSON string (`"alert": "Hello {{name}}"`). Values are escaped for
/// JSON, so the payload stays well-formed with any values. For `{{` itself, write `\u007b{`.
package struct PayloadTemplate: Sendable {
  enum Segment: Hashable, Sendable {
    case text(Range<Int>)
    case column(String)
  }

  package let source: [UInt8]
  let segments: [Segment]

  /// The columns that the placeholders name, without repetitions, in order of appearance. Empty:
  /// the payload is the same for all.
  package let columns: [String]

  /// Finds the placeholders. Whether the rest is JSON is not checked here: check ``sample``.
  package init(parsing source: [UInt8]) throws(PayloadTemplateError) {
    var parser = TemplateParser(source: source)
    try parser.run()
    self.source = source
    segments = parser.segments
    var columns: [String] = []
    for case .column(let name) in segments where !columns.contains(name) { columns.append(name) }
    self.columns = columns
  }

  /// The payload with `x` for every value. It is well-formed exactly if every payload of the
  /// template is.
  package var sample: [UInt8] {
    var bytes: [UInt8] = []
    for segment in segments {
      switch segment {
      case .text(let range): bytes += source[range]
      case .column: bytes.append(UInt8(ascii: "x"))
      }
    }
    return bytes
  }

  /// The payload with these values; nil if one is missing.
  package func render(_ value: (_ column: String) -> String?) -> [UInt8]? {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(source.count * 2)
    for segment in segments {
      switch segment {
      case .text(let range): bytes += source[range]
      case .column(let name):
        guard let value = value(name) else { return nil }
        JSONText.appendEscaped(value, to: &bytes)
      }
    }
    return bytes
  }

  /// Makes the renderer for a file with this header.
  ///
  /// - Parameter byteLimit: The largest payload that may be sent. Lines with a larger payload are
  ///   rejected one by one.
  /// - Throws: `missingColumn` if the file lacks a column that a placeholder names.
  package func renderer(for header: AudienceHeader, byteLimit: Int) throws(PayloadTemplateError) -> PayloadRenderer {
    var pieces: [PayloadRenderer.Piece] = []
    for segment in segments {
      switch segment {
      case .text(let range): pieces.append(.text(start: range.lowerBound, count: range.count))
      case .column(let name):
        guard let index = header.columns.firstIndex(of: name) else {
          throw .missingColumn(name: name, existing: header.columns)
        }
        pieces.append(.column(index))
      }
    }
    return PayloadRenderer(source: source, pieces: pieces, byteLimit: byteLimit)
  }
}

/// What is wrong with the placeholders of a payload. Lines and columns count from 1.
package enum PayloadTemplateError: Error, Hashable, Sendable, CustomStringConvertible {
  /// `{{…}}` outside a JSON string.
  case outsideString(line: Int, column: Int)
  /// `{{` in a string without `}}`.
  case unclosed(line: Int, column: Int)
  /// `{{}}`.
  case unnamed(line: Int, column: Int)
  /// The token file has no such column.
  case missingColumn(name: String, existing: [String])

  package var description: String {
    switch self {
    case .outsideString(let line, let column):
      "line \(line), column \(column): a placeholder stands outside a JSON string: put it in quotes, as in \"{{name}}\""
    case .unclosed(let line, let column):
      "line \(line), column \(column): the placeholder that begins here is not closed: "
        + "write {{name}}, or \\u007b{ for the braces themselves"
    case .unnamed(let line, let column):
      "line \(line), column \(column): the placeholder names no column: write {{name}}"
    case .missingColumn(let name, let existing) where existing.isEmpty:
      "the payload has the placeholder {{\(name)}}, but the token file has no columns: "
        + "give CSV with a header that has \"token\" and \"\(name)\""
    case .missingColumn(let name, let existing):
      "the payload has the placeholder {{\(name)}}, "
        + "but the token file has no column \"\(name)\" (it has \(AudienceHeader.list(existing)))"
    }
  }
}

private struct TemplateParser {
  package let source: [UInt8]
  var segments: [PayloadTemplate.Segment] = []
  private var position = 0
  private var textStart = 0

  init(source: [UInt8]) { self.source = source }

  mutating func run() throws(PayloadTemplateError) {
    var isInString = false
    while position < source.count {
      switch source[position] {
      case UInt8(ascii: "\\") where isInString: position += 2
      case UInt8(ascii: "\""):
        isInString.toggle()
        position += 1
      case UInt8(ascii: "{") where position + 1 < source.count && source[position + 1] == UInt8(ascii: "{"):
        // In JSON an object cannot begin with another one, so this is always a placeholder.
        guard isInString else { throw .outsideString(line: place.line, column: place.column) }
        try placeholder()
      default: position += 1
      }
    }
    if textStart < source.count { segments.append(.text(textStart..<source.count)) }
  }

  private mutating func placeholder() throws(PayloadTemplateError) {
    var end = position + 2
    while end + 1 < source.count, source[end] != UInt8(ascii: "\""),
      !(source[end] == UInt8(ascii: "}") && source[end + 1] == UInt8(ascii: "}"))
    { end += 1 }
    guard end + 1 < source.count, source[end] == UInt8(ascii: "}") else {
      throw .unclosed(line: place.line, column: place.column)
    }
    var name = source[position + 2..<end]
    while let first = name.first, AudienceReader.isSpace(first) { name.removeFirst() }
    while let last = name.last, AudienceReader.isSpace(last) { name.removeLast() }
    guard !name.isEmpty else { throw .unnamed(line: place.line, column: place.column) }
    if textStart < position { segments.append(.text(textStart..<position)) }
    segments.append(.column(String(decoding: name, as: UTF8.self)))
    position = end + 2
    textStart = position
  }

  private var place: (line: Int, column: Int) {
    let before = source[..<position]
    let lineStart = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
    return (before.count { $0 == UInt8(ascii: "\n") } + 1, position - lineStart + 1)
  }
}
