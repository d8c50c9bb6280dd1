internal import PushJournal
internal import Testing

@testable internal import PushEngine

/// What a lane of this process is asked to write into the journal again.
@Suite struct RewritingTests {
  private var book = JournalBook()

  init() {
    for lane in UInt64(1)...2 {
      book.apply(.laneBegan(lane: lane, app: "news"))
      book.make(lane: lane, live: true)
    }
    // 100 notifications of one block each, in the first record.
    book.apply(Self.header(lane: 1, 0..<100), at: JournalPosition(rawValue: 1), content: nil)
  }

  private static func header(lane: UInt64, _ range: Range<UInt64>, isRestated: Bool = false) -> EnqueueHeader {
    let run = JournalledRun(lane: lane, range: range, campaign: 7, count: range.count)
    return EnqueueHeader(run: run, position: nil, isInDoubt: false, isRestated: isRestated)
  }

  private mutating func move(_ range: Range<UInt64>, to start: UInt64) {
    var header = Self.header(lane: 2, start..<(start + UInt64(range.count)))
    header.source = EnqueueHeader.Source(lane: 1, range: range, newlyDoubted: 0)
    header.isMoved = true
    book.apply(header, at: JournalPosition(rawValue: 2), content: nil)
  }

  @Test("a lane is not asked to write again what has gone to another lane")
  mutating func nothingToWriteAgain() {
    let limit = JournalPosition(rawValue: 10)
    #expect(book.lanes[1]?.end(before: limit) == 100)
    move(0..<60, to: 0)
    #expect(book.lanes[1]?.end(before: limit) == 100)
    move(60..<100, to: 60)
    #expect(book.lanes[1]?.end(before: limit) == nil)
  }

  @Test("the record of what has gone to another lane is not needed any more")
  mutating func oldRecordsGo() {
    move(0..<100, to: 0)
    book.prune()
    #expect(book.lanes[1]?.oldestPosition == nil)
    #expect(book.oldestPosition == JournalPosition(rawValue: 2))
  }

  @Test("what is written again around a part that has gone to another lane is not counted twice")
  mutating func writtenAgain() {
    move(50..<80, to: 0)
    for range in [UInt64(0)..<50, 80..<100] {
      book.apply(Self.header(lane: 1, range, isRestated: true), at: JournalPosition(rawValue: 3), content: nil)
    }
    #expect(book.lanes[1]?.unsettledCount == 70)
  }

  @Test("a lane is not asked to write again what was given back")
  mutating func givenBack() {
    let limit = JournalPosition(rawValue: 10)
    book.apply(Self.header(lane: 1, 100..<120), at: JournalPosition(rawValue: 3), content: nil)
    book.apply(.withdrawn(JournalledRun(lane: 1, range: 100..<120, campaign: 7, count: 20), isInDoubt: false))
    #expect(book.lanes[1]?.end(before: limit) == 100)
    // What is open has been written again; the record of what was given back is as old as before.
    book.apply(Self.header(lane: 1, 0..<100, isRestated: true), at: JournalPosition(rawValue: 11), content: nil)
    #expect(book.lanes[1]?.end(before: limit) == nil)
  }
}
