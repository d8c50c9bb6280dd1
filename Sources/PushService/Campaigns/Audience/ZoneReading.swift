internal import Carillon
internal import PushEngine

/// Reads which time zones the rows of a token file name. Rows that name none, or something that no
/// time zone can be, are passed over.
final class ZoneReading {
  private let file: AudienceFile
  private let chunk: AudienceChunk

  private static let zoneByteLimit = 4096
  private static let names = ["timezone", "time-zone", "time_zone"]

  init(_ audience: KeptAudience) throws {
    file = try AudienceFile(audience) { header in
      guard let column = Self.column(of: header) else { return nil }
      // The text of the column, as a payload of its own.
      return try PayloadTemplate(parsing: Array("\"{{\(column)}}\"".utf8)).renderer(
        for: header, byteLimit: Self.zoneByteLimit)
    }
    chunk = AudienceChunk(payloadCapacity: AudienceChunk.defaultEntryLimit * Self.zoneByteLimit)
  }

  /// The name of the column, as the header has it.
  static func column(of header: AudienceHeader) -> String? { header.columns.first { names.contains($0.lowercased()) } }

  /// The zones of the next rows; nil at the end.
  func next() throws -> [String]? {
    guard try file.fill(chunk) != .end else { return nil }
    var zones: [String] = []
    for index in 0..<chunk.count {
      let entry = chunk[index]
      guard entry.kind == .ready else { continue }
      let zone = chunk.payloadText(of: entry).dropFirst().dropLast()
      if !zone.isEmpty { zones.append(String(zone)) }
    }
    return zones
  }
}
