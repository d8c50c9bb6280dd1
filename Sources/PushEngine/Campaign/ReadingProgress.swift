internal import PushWire

/// How far a journaled campaign has been read, and what of that the journal has been told.
struct ReadingProgress {
  private var mark: AudienceMark
  private var readLine: UInt64
  private var submitted: Int
  /// So many entries of the present chunk the journal has been told of, by this process or an earlier one.
  private(set) var toldCount = 0

  init(_ campaign: JournalledCampaign) {
    mark = campaign.mark
    readLine = campaign.readLine
    submitted = campaign.account.submitted
  }

  mutating func began(_ chunk: AudienceChunk) {
    mark = chunk.mark
    toldCount = 0
    while toldCount < chunk.count, chunk[toldCount].line <= readLine { toldCount += 1 }
  }

  /// Where the campaign stands once the entries before `end` have been taken in: those that cannot be sent are counted in the same record as the ones that follow
  /// them, never before, so that one line tells what is known of the audience and what is not.
  func position(before end: Int, of chunk: AudienceChunk) -> AudiencePosition {
    var position = AudiencePosition(mark: mark, readLine: readLine, submitted: submitted + end - toldCount)
    if end > toldCount { position.readLine = chunk[end - 1].line }
    guard chunk.readyCount < chunk.count else { return position }
    for index in toldCount..<end {
      if let rejection = chunk[index].kind.rejection { position.rejected[rejection, default: 0] += 1 }
    }
    return position
  }

  mutating func told(_ position: AudiencePosition, before end: Int) {
    (readLine, submitted, toldCount) = (position.readLine, position.submitted, end)
  }

  /// What is to be written once a chunk has been taken in, if it ends in entries that cannot be sent.
  mutating func tellRest(of chunk: AudienceChunk) -> AudiencePosition? {
    var end = toldCount
    while end < chunk.count, chunk[end].kind != .ready { end += 1 }
    guard end > toldCount else { return nil }
    let position = position(before: end, of: chunk)
    told(position, before: end)
    return position
  }
}
