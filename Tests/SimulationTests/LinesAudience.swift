internal import PushWire

@testable internal import PushEngine

/// A token file in memory that is there again when the campaign is resumed, by the real reader: the
/// journal says where the tokens lie. Some lines have a carriage return, so that it must have the
/// tokens of their neighbours.
final class LinesAudience: AudienceSource, @unchecked Sendable {
  // Sync: used on the simulated loop only.
  private let text: [UInt8]
  private var reader: AudienceReader
  private var position: Int

  init(_ tokens: [TokenBytes], from mark: AudienceMark? = nil) throws {
    text = Self.text(tokens)
    guard let header = try AudienceHeader.detect(text, isWhole: true) else { throw AudienceFormatError.empty }
    reader = AudienceReader(header, firstLine: mark?.line)
    position = mark.map { Int($0.offset) } ?? header.byteCount
  }

  private static func text(_ tokens: [TokenBytes]) -> [UInt8] {
    Array(tokens.map { $0.description + ($0.bytes[9] < 2 ? "\r\n" : "\n") }.joined().utf8)
  }

  private var restartOffset: Int? { reader.restart.map { position - $0.carriedByteCount } }

  func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    chunk.removeAll()
    if let restart = reader.restart, let offset = restartOffset {
      chunk.mark = AudienceMark(offset: UInt64(offset), line: restart.line)
    }
    let start = restartOffset
    position += unsafe text.withUnsafeBytes {
      unsafe reader.read(UnsafeRawBufferPointer(rebasing: $0[position...]), into: chunk)
    }
    if let start, let end = restartOffset { chunk.noteLines(start..<end) }
    return chunk.count > 0 ? .entries : .end
  }

  /// Reads in the file of these tokens.
  static func reading(_ tokens: [TokenBytes]) -> TokenReading {
    let text = text(tokens)
    return { (offset, count) throws(AudienceError) in
      let (start, byteCount) = (Int(offset), count * AudienceReader.bareLineByteCount)
      guard start + byteCount <= text.count,
        let tokens = AudienceReader.bareTokens(Array(text[start..<(start + byteCount)]))
      else { throw AudienceError(path: nil, problem: .noTokens(at: offset)) }
      return tokens
    }
  }
}
