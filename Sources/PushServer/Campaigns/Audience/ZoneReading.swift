internal import Carillon
internal import PushEngine

/// Reads which time zones the rows of a token file name.
final class ZoneReading {
  struct Row {
    var line: UInt64
    /// The token in hexadecimal digits.
    var token: String
    /// Empty if the row names none.
    var zone: String
  }

  private let file: AudienceFile
  private let chunk: AudienceChunk

  private static let zoneByteLimit = 4096
  private static let names = ["timezone", "time-zone", "time_zone"]

  /// - Parameter numbersRows: see ``AudienceFile``.
  init(path: String, numbersRows: Bool) throws {
    file = try AudienceFile(path: path, namesPath: false, numbersRows: numbersRows) { header in
      guard let column = Self.column(of: header) else { return nil }
      // The text of the column, as a payload of its own.
      return try PayloadTemplate(parsing: Array("\"{{\(column)}}\"".utf8)).renderer(
        for: header, byteLimit: Self.zoneByteLimit)
    }
    chunk = AudienceChunk(payloadCapacity: AudienceChunk.defaultEntryLimit * Self.zoneByteLimit)
  }

  /// The name of the column, as the header has it.
  static func column(of header: AudienceHeader) -> String? {
    header.columns.first { names.contains($0.lowercased()) }
  }

  /// The next rows that can be sent; nil at the end.
  func next() throws -> [Row]? {
    while true {
      switch try file.fill(chunk) {
      case .end: return nil
      case .nothingYet, .nothingFor, .waiting: continue
      case .entries:
        var rows: [Row] = []
        for index in 0..<chunk.count {
          let entry = chunk[index]
          guard entry.kind == .ready else { continue }
          let text = chunk.payloadText(of: entry)
          rows.append(
            Row(line: entry.line, token: chunk.text(of: entry), zone: String(text.dropFirst().dropLast())))
        }
        return rows
      }
    }
  }
}
