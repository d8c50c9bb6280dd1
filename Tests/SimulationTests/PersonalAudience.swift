internal import PushEngine
internal import PushWire
internal import Synchronization

/// A CSV audience in memory with a payload for each notification, by the real reader and the real
/// template.
final class PersonalAudience: AudienceSource, @unchecked Sendable {
  // Sync: used on the simulated loop only.
  static let template = #"{"aps":{"alert":"Hello {{name}}"}}"#

  private let text: [UInt8]
  private var reader: AudienceReader
  private var position: Int

  init(_ tokens: [TokenBytes], from mark: AudienceMark? = nil) throws {
    let rows = tokens.map { "\($0.description),\(Self.name(of: $0))\n" }
    text = Array(("token,name\n" + rows.joined()).utf8)
    guard let header = try AudienceHeader.detect(text, isWhole: true) else { throw AudienceFormatError.empty }
    let renderer = try PayloadTemplate(parsing: Array(Self.template.utf8)).renderer(for: header, byteLimit: 256)
    reader = AudienceReader(header, renderer: renderer, firstLine: mark?.line)
    position = mark.map { Int($0.offset) } ?? header.byteCount
  }

  /// 0 to 150 letters, depending on the token, so that ring records have one to five blocks.
  static func name(of token: TokenBytes) -> String {
    String(repeating: "n", count: token.bytes.reduce(0) { ($0 &* 31 &+ Int($1)) % 151 })
  }

  static func payload(of token: TokenBytes) -> [UInt8] {
    Array(template.replacing("{{name}}", with: name(of: token)).utf8)
  }

  func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    chunk.removeAll()
    chunk.mark =
      reader.restart.map { AudienceMark(offset: UInt64(position - $0.carriedByteCount), line: $0.line) } ?? chunk.mark
    position += unsafe text.withUnsafeBytes {
      unsafe reader.read(UnsafeRawBufferPointer(rebasing: $0[position...]), into: chunk)
    }
    return chunk.count > 0 ? .entries : .end
  }
}
