internal import PushJournal
internal import Testing

@testable internal import PushEngine

/// Which notifications a running lane is asked to compact.
@Suite struct RewritingTests {
  private var contents = JournalState()

  init() {
    for lane in UInt64(1)...2 {
      contents.apply(.laneBegan(lane: lane, app: "news"))
      contents.make(lane: lane, live: true)
    }
    // 100 notifications of one block each, in the first record.
    contents.apply(Self.header(lane: 1, 0..<100), at: JournalPosition(rawValue: 1), content: nil)
  }

  private static func header(lane: UInt64, _ range: Range<UInt64>, isRewritten: Bool = false) -> EnqueueHeader {
    let run = JournalledRun(lane: lane, range: range, campaign: 7, count: range.count)
    return EnqueueHeader(run: run, position: nil, isInDoubt: false, isRewritten: isRewritten)
  }

  private mutating func move(_ range: Range<UInt64>, to start: UInt64) {
    var header = Self.header(lane: 2, start..<(start + UInt64(range.count)))
    header.source = EnqueueHeader.Source(lane: 1, range: range, newlyDoubted: 0)
    header.isMoved = true
    contents.apply(header, at: JournalPosition(rawValue: 2), content: nil)
  }

  @Test("a lane is not asked to compact what has gone to another lane")
  mutating func nothingToWriteAgain() {
    let limit = JournalPosition(rawValue: 10)
    #expect(contents.lanes[1]?.end(before: limit) == 100)
    move(0..<60, to: 0)
    #expect(contents.lanes[1]?.end(before: limit) == 100)
    move(60..<100, to: 60)
    #expect(contents.lanes[1]?.end(before: limit) == nil)
  }

  @Test("the record of what has gone to another lane is no longer needed")
  mutating func oldRecordsGo() {
    move(0..<100, to: 0)
    contents.prune()
    #expect(contents.lanes[1]?.oldestPosition == nil)
    #expect(contents.oldestPosition == JournalPosition(rawValue: 2))
  }

  @Test("compaction around a part that has gone to another lane counts nothing twice")
  mutating func writtenAgain() {
    move(50..<80, to: 0)
    for range in [UInt64(0)..<50, 80..<100] {
      contents.apply(Self.header(lane: 1, range, isRewritten: true), at: JournalPosition(rawValue: 3), content: nil)
    }
    #expect(contents.lanes[1]?.unsettledCount == 70)
  }

  @Test("a lane is not asked to compact what was given back")
  mutating func givenBack() {
    let limit = JournalPosition(rawValue: 10)
    contents.apply(Self.header(lane: 1, 100..<120), at: JournalPosition(rawValue: 3), content: nil)
    contents.apply(.withdrawn(JournalledRun(lane: 1, range: 100..<120, campaign: 7, count: 20), isInDoubt: false))
    #expect(contents.lanes[1]?.end(before: limit) == 100)
    // The open notifications have been compacted. The record of the returned ones is as old as
    // before.
    contents.apply(Self.header(lane: 1, 0..<100, isRewritten: true), at: JournalPosition(rawValue: 11), content: nil)
    #expect(contents.lanes[1]?.end(before: limit) == nil)
  }
}
