/// Columns of text, as a terminal shows them.
enum TextTable {
  /// The rows as lines, with two spaces between columns and none at the end.
  ///
  /// - Parameters:
  ///   - rows: as many cells each as the first one has.
  ///   - leftAligned: columns of words; the others are numbers.
  static func lines(_ rows: [[String]], leftAligned: Set<Int>) -> [String] {
    guard let first = rows.first else { return [] }
    let widths = first.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    return rows.map { row in
      let cells = row.indices.map { column in
        let padding = String(repeating: " ", count: widths[column] - row[column].count)
        return leftAligned.contains(column) ? row[column] + padding : padding + row[column]
      }
      var line = cells.joined(separator: "  ")
      while line.last == " " { line.removeLast() }
      return line
    }
  }

  /// Lines of whole words, each with this many spaces before it.
  ///
  /// - Parameter columns: of the terminal; nil: any number.
  static func wrapped(_ text: String, indent: Int, columns: Int?) -> [String] {
    let space = String(repeating: " ", count: indent)
    let width = max(20, columns ?? .max) - indent
    var (lines, line): ([String], String) = ([], "")
    for word in text.split(separator: " ") {
      if !line.isEmpty, line.count + 1 + word.count > width {
        lines.append(space + line)
        line = ""
      }
      line += (line.isEmpty ? "" : " ") + word
    }
    return line.isEmpty ? lines : lines + [space + line]
  }
}
