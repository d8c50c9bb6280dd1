internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushEngine

@Suite("Entries of a chunk that share payload and headers")
struct AudienceChunkTests {
  private static func contents(_ chunk: AudienceChunk) -> [String] {
    (0..<chunk.count).map { index in
      let entry = chunk[index]
      let token = unsafe TokenBytes(bytes: chunk.token(of: entry))?.description ?? ""
      let headers = chunk.ownHeaders(of: entry)
      let collapse = unsafe String(decoding: headers.collapseIdentifier, as: UTF8.self)
      let own = "\(headers.identifier?.description ?? "") \(headers.expiration ?? 0) \(collapse)"
      return "\(entry.line) \(token) \(own) \(chunk.payloadText(of: entry))"
    }
  }

  @Test("they are the same as each for itself, as far as they fit", arguments: 0..<50)
  func sharing(seed: Int) {
    var random = SeededGenerator(seed: UInt64(seed))
    let entryLimit = Int.random(in: 1...40, using: &random)
    let together = AudienceChunk(entryLimit: entryLimit, payloadCapacity: 500)
    let apart = AudienceChunk(entryLimit: entryLimit, payloadCapacity: 40 * 200)
    var line: UInt64 = 1
    for _ in 0..<10 {
      let tokens = (0..<Int.random(in: 1...12, using: &random)).compactMap { _ in
        TokenBytes(bytes: random.bytes(random.chance(70) ? 32 : Int.random(in: 1...100, using: &random)))
      }
      let payload = random.bytes(Int.random(in: 0...200, using: &random)).map { $0 % 26 + 97 }
      let identifier = random.chance(20) ? APNSIdentifier(high: random.next(), low: random.next()) : nil
      let collapse = random.chance(30) ? "match" : nil
      let expiration = random.chance(50) ? UInt32(truncatingIfNeeded: random.next()) : nil
      let taken = together.append(
        line: line, tokens: tokens[...], payload: payload, identifier: identifier, collapseIdentifier: collapse,
        expiration: expiration)
      #expect(taken <= tokens.count)
      #expect(taken == tokens.count || together.count == entryLimit || taken == 0)
      for (offset, token) in tokens.prefix(taken).enumerated() {
        apart.append(
          line: line + UInt64(offset), token: token, payload: payload, identifier: identifier,
          collapseIdentifier: collapse, expiration: expiration)
      }
      line += UInt64(taken)
    }
    #expect(Self.contents(together) == Self.contents(apart), "seed \(seed)")
    #expect(together.readyCount == together.count)
  }
}
