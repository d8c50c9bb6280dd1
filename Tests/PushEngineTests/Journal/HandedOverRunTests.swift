internal import PushJournal
internal import Testing

@testable internal import PushEngine

/// Runs of which a part has gone to another lane.
@Suite struct HandedOverRunTests {
  private static func lane(_ ranges: Range<UInt64>...) -> JournalledLane {
    var lane = JournalledLane(number: 1, app: "news")
    lane.isLive = true
    for (index, range) in ranges.enumerated() {
      lane.enqueued(Self.run(range, at: UInt64(index + 1)), isRewritten: false)
    }
    return lane
  }

  private static func run(_ range: Range<UInt64>, at position: UInt64) -> JournalledLane.Run {
    let run = JournalledRun(lane: 1, range: range, campaign: 7, count: range.count)
    return JournalledLane.Run(run: run, position: JournalPosition(rawValue: position), isInDoubt: false, content: nil)
  }

  @Test("after compaction of the rest, the old record is not needed, and the lane is not asked again")
  func tail() {
    var lane = Self.lane(0..<100)
    lane.moved(40..<100)
    lane.enqueued(Self.run(0..<40, at: 50), isRewritten: true)
    lane.prune { _ in false }
    #expect(lane.oldestPosition == JournalPosition(rawValue: 50))
    #expect(lane.end(before: JournalPosition(rawValue: 50)) == nil)
  }

  @Test("a part from the middle leaves two parts, and both can be compacted")
  func middle() {
    var lane = Self.lane(0..<100)
    lane.moved(40..<60)
    lane.enqueued(Self.run(0..<40, at: 50), isRewritten: true)
    lane.enqueued(Self.run(60..<100, at: 51), isRewritten: true)
    lane.prune { _ in false }
    #expect(lane.oldestPosition == JournalPosition(rawValue: 50))
    #expect(lane.campaigns == [7])
  }

  @Test("a run that has gone as a whole keeps no record")
  func whole() {
    var lane = Self.lane(0..<40, 40..<100)
    lane.moved(40..<100)
    lane.prune { _ in false }
    #expect(lane.oldestPosition == JournalPosition(rawValue: 1))
    #expect(lane.end(before: JournalPosition(rawValue: 10)) == 40)
  }

  @Test("what has gone stays recorded until everything before it has left the ring")
  func between() {
    var lane = Self.lane(0..<30, 30..<60, 60..<90)
    lane.moved(30..<60)
    lane.prune { _ in false }
    #expect(lane.moved.ranges == [30..<60], "what is given back on both sides is one range")
    lane.returned(JournalledRun(lane: 1, range: 0..<30, campaign: 7, count: 30), isInDoubt: false)
    lane.returned(JournalledRun(lane: 1, range: 60..<90, campaign: 7, count: 30), isInDoubt: false)
    lane.prune { _ in false }
    #expect(lane.moved.ranges == [30..<60])
    lane.prune { _ in true }
    #expect(lane.moved.ranges == [], "the campaign has ended, so nothing given back is left")
  }

  @Test("what was settled between two returned runs is never returned, whenever the lane is pruned", arguments: 0..<8)
  func settledBetween(prunes: Int) {
    var lane = Self.lane(0..<30, 30..<60, 60..<90)
    func run(_ range: Range<UInt64>) -> JournalledRun { JournalledRun(lane: 1, range: range, campaign: 7, count: 30) }
    let steps: [(inout JournalledLane) -> Void] = [
      { $0.returned(run(0..<30), isInDoubt: false) },
      { $0.settled(run(30..<60)) },
      { $0.returned(run(60..<90), isInDoubt: false) },
    ]
    for (index, step) in steps.enumerated() {
      step(&lane)
      if prunes & 1 << index != 0 { lane.prune { _ in false } }
    }
    #expect(lane.record.returned.map(\.run.range) == [0..<30, 60..<90])
    #expect(lane.record.returned.map(\.run.count) == [30, 30])
  }
}
