internal import PushWire

/// The format of a token file by its beginning: plain lines, or CSV with named columns.
package struct AudienceHeader: Hashable, Sendable {
  /// The names in the header, in order; empty for plain lines.
  package let columns: [String]
  /// The index of the column with the token; 0 for plain lines.
  package let tokenColumn: Int
  /// The bytes of the file before the first row: byte order mark, blank lines and the header.
  package let byteCount: Int
  /// The number of the line after those.
  package let firstLine: UInt64

  package var isCSV: Bool { !columns.isEmpty }

  /// The columns with a notification's own `apns-id` and `apns-collapse-id`. Upper and lower case
  /// are equal, as for `token`.
  package var identifierColumn: Int? { column("apns-id") }
  package var collapseColumn: Int? { column("collapse-id") }

  private func column(_ name: String) -> Int? { columns.firstIndex { $0.lowercased() == name } }

  /// Whether a file begins as lines of JSON do, which a service takes in place of a token file.
  /// Nil: there is only white space so far.
  package static func isJSON(_ prefix: [UInt8]) -> Bool? {
    prefix.first { !($0 == UInt8(ascii: " ") || (9...13).contains($0)) }.map { $0 == UInt8(ascii: "{") }
  }

  /// Finds the header in the first bytes of a file.
  ///
  /// The header of a CSV file is the first line that is not blank. It has a column named `token`,
  /// in upper or lower case. Without such a column the file has one token per line, unless its
  /// first line has several columns and the next one is not a token either.
  ///
  /// - Parameters:
  ///   - prefix: The file from its first byte on, as much as there is. Two lines are enough, and so
  ///     is anything above ``AudienceReader/lineByteLimit``.
  ///   - isWhole: There is nothing after `prefix`.
  /// - Returns: Nil when more bytes are needed.
  package static func detect(_ prefix: [UInt8], isWhole: Bool) throws(AudienceFormatError) -> AudienceHeader? {
    if prefix.starts(with: [0xFF, 0xFE]) || prefix.starts(with: [0xFE, 0xFF]) { throw .notUTF8 }
    let start = prefix.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0
    let plain = AudienceHeader(columns: [], tokenColumn: 0, byteCount: start, firstLine: 1)
    let mayGoOn = !isWhole && prefix.count <= AudienceReader.lineByteLimit
    var lines = LineWalk(bytes: prefix, position: start)
    guard let first = lines.nextWithText() else {
      if isWhole { throw .empty }
      // More blank lines than the limit of one line. The reader skips them.
      return mayGoOn ? nil : plain
    }
    if !isWhole, !first.isComplete { return mayGoOn ? nil : plain }
    let columns = names(in: Array(first.bytes))
    guard let tokenColumn = columns.firstIndex(where: { $0.lowercased() == "token" }) else {
      guard !isToken(first.bytes), let separator = separator(in: first.bytes) else { return plain }
      let second = lines.nextWithText()
      if mayGoOn, !(second?.isComplete ?? false) { return nil }
      if let second, isToken(second.bytes) { return plain }
      throw .noTokenColumn(line: first.line, columns: columns, separator: separator)
    }
    for (index, name) in columns.enumerated() where !name.isEmpty && columns[..<index].contains(name) {
      throw .duplicateColumn(line: first.line, name: name)
    }
    if isWhole, lines.nextWithText() == nil { throw .empty }
    return AudienceHeader(columns: columns, tokenColumn: tokenColumn, byteCount: first.end, firstLine: first.line + 1)
  }

  /// Names for a sentence.
  package static func list(_ names: [String]) -> String { names.map { "\"\($0)\"" }.joined(separator: ", ") }

  private static func isToken(_ line: ArraySlice<UInt8>) -> Bool {
    (try? TokenBytes(parsing: String(decoding: line, as: UTF8.self))) != nil
  }

  private static func separator(in line: ArraySlice<UInt8>) -> String? {
    if line.contains(UInt8(ascii: ",")) { return "," }
    if line.contains(UInt8(ascii: ";")) { return "semicolons" }
    if line.contains(UInt8(ascii: "\t")) { return "tabs" }
    return nil
  }

  private static func names(in line: [UInt8]) -> [String] {
    var record = AudienceRecord(columnLimit: line.count + 1)
    guard unsafe line.withUnsafeBytes({ unsafe record.split($0) }) else {
      return [String(decoding: line, as: UTF8.self)]
    }
    var names: [String] = []
    for index in 0..<record.count {
      let field = record[index]
      var bytes: [UInt8] = []
      var isSecondQuote = false
      for byte in line[field.start..<field.end] {
        isSecondQuote = field.isQuoted && byte == UInt8(ascii: "\"") && !isSecondQuote
        if !isSecondQuote { bytes.append(byte) }
      }
      names.append(String(decoding: bytes, as: UTF8.self))
    }
    return names
  }
}

/// The lines of the first block, without their ends. The header is one line; names that span lines
/// are not supported.
private struct LineWalk {
  let bytes: [UInt8]
  var position: Int
  var line: UInt64 = 0

  struct Line {
    let bytes: ArraySlice<UInt8>
    let line: UInt64
    /// The offset after the line's end.
    let end: Int
    /// The line has its end.
    let isComplete: Bool
  }

  mutating func nextWithText() -> Line? {
    while position < bytes.count {
      let start = position
      line += 1
      let end = bytes[start...].firstIndex(of: UInt8(ascii: "\n")) ?? bytes.count
      position = min(end + 1, bytes.count)
      var text = bytes[start..<end]
      while let last = text.last, AudienceReader.isBlank(last) { text.removeLast() }
      if !text.isEmpty { return Line(bytes: text, line: line, end: position, isComplete: end < bytes.count) }
    }
    return nil
  }
}
