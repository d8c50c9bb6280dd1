internal import PushWire

/// How far a journaled campaign has been read, and how much of that is in the journal.
struct AudienceProgress {
  private var mark: AudienceMark
  private var readLine: UInt64
  private var submitted: Int
  /// The last line that is in the journal; 0: none.
  var lastLine: UInt64 { readLine }
  /// How many entries of the current chunk are in the journal, by this process or an earlier one.
  private(set) var recordedCount = 0
  /// See ``AudiencePosition/coversUncounted``, of the next position.
  private var coversUncounted = false

  init(_ campaign: JournalledCampaign) {
    (mark, readLine, submitted) = (campaign.mark, campaign.readLine, campaign.account.submitted)
  }

  mutating func began(_ chunk: AudienceChunk) {
    mark = chunk.mark
    recordedCount = 0
    while recordedCount < chunk.count, chunk[recordedCount].line <= readLine { recordedCount += 1 }
  }

  /// All of the current chunk has outcomes, and is not sent.
  mutating func passedOver() { coversUncounted = true }

  /// The campaign's position when the entries before `end` have been taken in. Entries that cannot
  /// be sent are counted in the same record as the next ones that can, never before. So one line
  /// divides the audience into the known and the unknown part.
  func position(before end: Int, of chunk: AudienceChunk) -> AudiencePosition {
    var position = AudiencePosition(mark: mark, readLine: readLine, submitted: submitted + end - recordedCount)
    position.coversUncounted = coversUncounted
    if end > recordedCount { position.readLine = chunk[end - 1].line }
    guard chunk.readyCount < chunk.count else { return position }
    for index in recordedCount..<end {
      let kind = chunk[index].kind
      if let outcome = kind.withheld { position.withheld.count(outcome, 1) }
      if let rejection = kind.rejection { position.rejected[rejection, default: 0] += 1 }
    }
    return position
  }

  mutating func recorded(_ position: AudiencePosition, before end: Int) {
    (readLine, submitted, recordedCount) = (position.readLine, position.submitted, end)
    coversUncounted = false
  }

  /// The position to write after a chunk that ends with entries that cannot be sent.
  mutating func recordRest(of chunk: AudienceChunk) -> AudiencePosition? {
    var end = recordedCount
    while end < chunk.count, chunk[end].kind != .ready { end += 1 }
    guard end > recordedCount else { return nil }
    let position = position(before: end, of: chunk)
    recorded(position, before: end)
    return position
  }
}
