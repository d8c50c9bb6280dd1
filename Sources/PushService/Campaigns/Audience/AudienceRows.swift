internal import HTTPTypes
internal import PushEngine
internal import PushWire

/// The columns that a campaign needs, and lines of NDJSON as rows of a token file with them.
package struct AudienceRows: Sendable {
  private let columns: [String]
  private let placeholders: [String]

  /// Fields with the same meaning as a column of another name.
  private static let names = ["apnsId": "apns-id", "collapseId": "collapse-id", "time-zone": "timeZone"]
  private static let fixed = ["token", "apns-id", "collapse-id", "language", "timeZone"]

  /// - Parameter placeholders: of the campaign's payloads.
  package init(placeholders: some Sequence<String>) {
    var columns = Self.fixed
    for name in placeholders where !columns.contains(name) { columns.append(name) }
    self.columns = columns
    self.placeholders = Array(placeholders)
  }

  /// - Throws: ``Problem`` with 422 if a file with this header lacks a column that a payload names.
  func check(_ header: AudienceHeader) throws {
    guard let missing = placeholders.first(where: { !header.columns.contains($0) }) else { return }
    let existing = header.isCSV ? "it has \(AudienceHeader.list(header.columns))" : "it has no header"
    throw Problem(
      .unprocessableContent, "No column",
      "The payload has the placeholder {{\(missing)}}, but the audience has no column \"\(missing)\" (\(existing)).",
      action: "Name the column in the header, or change the payload.")
  }

  /// The first line, with its end.
  var header: [UInt8] { Array((columns.map(Self.quoted).joined(separator: ",") + "\n").utf8) }

  /// Appends a line's row. No object, or one that lacks a value, becomes a row that is not sent.
  ///
  /// - Parameter line: nil: it was too long.
  func append(_ line: [UInt8]?, to bytes: inout [UInt8]) {
    guard let line else {
      bytes += Array("malformed\n".utf8)
      return
    }
    // A blank line is none of a token file's rows either.
    guard line.contains(where: { !($0 == 32 || (9...13).contains($0)) }) else {
      bytes.append(UInt8(ascii: "\n"))
      return
    }
    guard let values = values(of: line) else {
      let text = String(decoding: line.prefix(100), as: UTF8.self)
      bytes += Array((Self.quoted(text) + "\n").utf8)
      return
    }
    let row = columns.map { Self.quoted(values[$0] ?? "") }.joined(separator: ",") + "\n"
    // Quotes can have made it longer than a row may be.
    bytes += Array((row.utf8.count <= AudienceReader.lineByteLimit ? row : "malformed\n").utf8)
  }

  private func values(of line: [UInt8]) -> [String: String]? {
    guard case .object(let members)? = try? JSONValue(parsing: line[...]) else { return nil }
    var values: [String: String] = [:]
    for member in members {
      let name = Self.names[member.key] ?? member.key
      switch member.value {
      case .string(let text), .number(let text): values[name] = text
      case .bool(let value): values[name] = value ? "true" : "false"
      case .null: continue
      case .object, .array:
        if columns.contains(name) { return nil }
      }
    }
    let needed = columns.filter { $0 == "token" || !Self.fixed.contains($0) }
    return needed.allSatisfy { values[$0] != nil } ? values : nil
  }

  private static func quoted(_ text: String) -> String {
    guard text.utf8.contains(where: { ",\"\r\n \t".utf8.contains($0) }) else { return text }
    return "\"" + text.replacing("\"", with: "\"\"") + "\""
  }
}
