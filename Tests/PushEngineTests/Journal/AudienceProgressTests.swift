internal import PushJournal
internal import PushWire
internal import Testing

@testable internal import PushEngine

@Suite struct AudienceProgressTests {
  private static func chunk(_ lines: ClosedRange<UInt64>) -> AudienceChunk {
    let chunk = AudienceChunk(entryLimit: 8)
    for line in lines {
      guard let token = TokenBytes(bytes: [UInt8(line)]) else { continue }
      chunk.append(line: line, token: token)
    }
    return chunk
  }

  @Test("a position behind those who were passed over in doubt waits for the lists that name them, once")
  func passedOver() {
    var progress = AudienceProgress(
      JournalledCampaign(
        number: 1, group: 1, groupCount: 1, app: "app", payload: 0, expiration: nil, priority: nil, context: []))
    let doubted = Self.chunk(1...3)
    progress.began(doubted)
    progress.passedOver()
    #expect(progress.recordRest(of: doubted) == nil, "they are in no count of the journal")
    let next = Self.chunk(4...6)
    progress.began(next)
    let position = progress.position(before: 2, of: next)
    #expect(position.readLine == 5)
    #expect(position.submitted == 2)
    #expect(position.preparation == .lists)
    // Without room in the journal it is tried again.
    #expect(progress.position(before: 1, of: next).preparation == .lists)
    progress.recorded(position, before: 2)
    #expect(progress.position(before: 3, of: next).preparation == .least)
  }
}
