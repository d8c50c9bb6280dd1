/// What a checkpoint writes of a lane: everything that ``JournalledLane`` knows, except the runs,
/// which have their own records.
struct LaneRecord {
  /// Notifications of a campaign that count as possible duplicates.
  struct Doubt: Hashable {
    var campaign: UInt64
    var range: Range<UInt64>
  }

  var number: UInt64
  var app: String
  var settled: UInt64 = 0
  var intent: UInt64 = 0
  var returned: [ReturnedRuns.Piece] = []
  var doubted: [Doubt] = []
  var taken: [UInt64: UInt64] = [:]
  var ahead = RangeSet()
  var moved = RangeSet()

  var byteCount: Int {
    let head = 8 + 4 + app.utf8.count + 16
    let lists = 4 + returned.count * (JournalledRun.byteCount + 1) + 4 + doubted.count * 24 + 4 + taken.count * 16
    return head + lists + 4 + ahead.ranges.count * 16 + 4 + moved.ranges.count * 16
  }

  func write(to record: inout RecordWriter) {
    record.write(number)
    record.write(Array(app.utf8))
    record.write(settled)
    record.write(intent)
    record.write(UInt32(returned.count))
    for piece in returned {
      piece.run.write(to: &record)
      record.write(piece.fate.rawValue)
    }
    record.write(UInt32(doubted.count))
    for doubt in doubted {
      record.write(doubt.campaign)
      record.write(doubt.range)
    }
    record.write(UInt32(taken.count))
    for (campaign, position) in taken {
      record.write(campaign)
      record.write(position)
    }
    record.write(UInt32(ahead.ranges.count))
    for range in ahead.ranges { record.write(range) }
    record.write(UInt32(moved.ranges.count))
    for range in moved.ranges { record.write(range) }
  }

  init(number: UInt64, app: String) { (self.number, self.app) = (number, app) }

  init(reading record: inout RecordReader) throws(RecordError) {
    number = try record.read()
    app = try record.readString()
    settled = try record.read()
    intent = try record.read()
    for _ in 0..<(try record.read(UInt32.self)) {
      let run = try JournalledRun(reading: &record)
      guard let fate = RecoveredRun.Fate(rawValue: try record.read()) else { throw .outOfRange }
      returned.append(ReturnedRuns.Piece(run: run, fate: fate))
    }
    for _ in 0..<(try record.read(UInt32.self)) {
      doubted.append(Doubt(campaign: try record.read(), range: try record.readRange()))
    }
    for _ in 0..<(try record.read(UInt32.self)) {
      let campaign = try record.read(UInt64.self)
      taken[campaign] = try record.read()
    }
    for _ in 0..<(try record.read(UInt32.self)) { ahead.insert(try record.readRange()) }
    for _ in 0..<(try record.read(UInt32.self)) { moved.insert(try record.readRange()) }
  }
}
