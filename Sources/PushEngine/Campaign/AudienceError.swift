/// Why an audience cannot be read at all. Single malformed lines are not errors but entries.
package struct AudienceError: Error, Hashable, Sendable, CustomStringConvertible {
  package enum Problem: Hashable, Sendable {
    /// The system's reason, such as "No such file or directory".
    case cannotOpen(String)
    case cannotRead(String)
    case isFolder
    /// The file has fewer bytes than when it was made, or opened.
    case endsEarly(Int, of: Int)
    /// A line has more than ``AudienceReader/skippedByteLimit`` bytes.
    case endlessLine(UInt64)
    case format(AudienceFormatError)
    /// A journal says that lines of nothing but a token begin at this byte.
    case noTokens(at: UInt64)
  }

  /// `-` for standard input; nil for an audience that is no file of the operator's.
  package let path: String?
  package let problem: Problem

  package init(path: String?, problem: Problem) { (self.path, self.problem) = (path, problem) }

  package var description: String {
    let name = path.map { $0 == "-" ? "standard input" : $0 } ?? "The audience"
    let file = path == nil ? name : "The token file \(name)"
    return switch problem {
    case .cannotOpen(let reason): "\(file) cannot be opened: \(reason)."
    case .cannotRead(let reason): "\(file) cannot be read any further: \(reason)."
    case .endsEarly(let byteCount, let whole):
      "\(file) ends after \(byteCount) of \(whole) bytes: the rest of it is lost."
    case .isFolder: "\(name) is a folder, not a token file."
    case .endlessLine(let line):
      "\(file) cannot be read any further: "
        + "line \(line) has more than \(AudienceReader.skippedByteLimit >> 20) MiB; give one token per line."
    case .format(let problem): problem.sentence(name)
    case .noTokens(let offset):
      "\(file) is not what it was: at byte \(offset) it had lines with nothing but a token each."
    }
  }
}

/// What is wrong with the beginning of a token file.
package enum AudienceFormatError: Error, Hashable, Sendable {
  /// Only blank lines, or nothing after the header.
  case empty
  case notUTF8
  /// A first line with several columns, none of which is named `token`. The separator is `,` or
  /// what seems to be used in its place.
  case noTokenColumn(line: UInt64, columns: [String], separator: String)
  case duplicateColumn(line: UInt64, name: String)

  func sentence(_ name: String) -> String {
    switch self {
    case .empty:
      "\(name) holds no device token: give one token per line, or CSV with a header that has a column \"token\"."
    case .notUTF8: "\(name) is UTF-16: save it as UTF-8."
    case .noTokenColumn(let line, let columns, ","):
      "\(name), line \(line): the header has no column \"token\" (it has \(AudienceHeader.list(columns))): "
        + "rename the column that holds the device tokens."
    case .noTokenColumn(let line, _, let separator):
      "\(name), line \(line): the columns seem to be separated by \(separator): "
        + "separate them by commas, and name the one with the device tokens \"token\"."
    case .duplicateColumn(let line, let column):
      "\(name), line \(line): the header has the column \"\(column)\" twice: give each column a name of its own."
    }
  }
}
