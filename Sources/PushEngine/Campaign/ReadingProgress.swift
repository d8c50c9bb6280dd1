internal import PushWire

/// How far a journaled campaign has been read, and what of that the journal has not been told yet.
struct ReadingProgress {
  private var mark: AudienceMark
  private var enqueuedLine: UInt64
  private var rejectedLine: UInt64
  private var submitted: Int
  /// Lines that could not be sent, since the last position that was written.
  private var malformed = 0
  private var tooLarge = 0
  private var isUnwritten = false
  private var lastLine: UInt64 = 0

  init(_ campaign: JournalledCampaign) {
    mark = campaign.mark
    enqueuedLine = campaign.enqueuedLine
    rejectedLine = campaign.rejectedLine
    submitted = campaign.account.submitted
  }

  /// False if an earlier process has counted this line.
  mutating func rejects(_ line: UInt64, _ reason: Rejection) -> Bool {
    guard line > rejectedLine else { return false }
    if reason == .payloadTooLarge { tooLarge += 1 } else { malformed += 1 }
    return true
  }

  /// The lines of the chunk that cannot be sent have been counted.
  mutating func began(_ chunk: AudienceChunk) {
    mark = chunk.mark
    guard chunk.count > 0 else { return }
    lastLine = chunk[chunk.count - 1].line
    rejectedLine = max(rejectedLine, lastLine)
    isUnwritten = true
  }

  /// The first entry that no earlier process has taken in.
  func firstNewEntry(of chunk: AudienceChunk) -> Int {
    guard chunk.origin == nil, chunk.count > 0, chunk[0].line <= enqueuedLine else { return 0 }
    return (0..<chunk.count).first { chunk[$0].line > enqueuedLine } ?? chunk.count
  }

  /// Where the campaign stands once `run` has been taken in.
  func position(after run: ChunkRun, of chunk: AudienceChunk) -> AudiencePosition {
    AudiencePosition(
      mark: mark, enqueuedLine: max(enqueuedLine, chunk[run.end - 1].line), rejectedLine: rejectedLine, submitted: submitted + run.count + malformed + tooLarge,
      malformed: malformed, tooLarge: tooLarge)
  }

  mutating func wrote(_ position: AudiencePosition) {
    enqueuedLine = position.enqueuedLine
    submitted = position.submitted
    (malformed, tooLarge) = (0, 0)
    isUnwritten = false
  }

  /// What is to be written at the end of a chunk in which nothing could be sent.
  mutating func unwrittenPosition(of campaign: UInt64?) -> JournalEvent? {
    guard isUnwritten, malformed + tooLarge > 0, let campaign else { return nil }
    let position = AudiencePosition(
      mark: mark, enqueuedLine: enqueuedLine, rejectedLine: rejectedLine, submitted: submitted + malformed + tooLarge, malformed: malformed, tooLarge: tooLarge)
    wrote(position)
    return .position(campaign: campaign, position)
  }
}
