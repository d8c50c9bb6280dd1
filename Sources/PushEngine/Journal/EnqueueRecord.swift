/// What precedes the notifications in an enqueue record: a run of one campaign, taken into one
/// lane's ring by one claim.
///
/// ```
/// lane u64 · from u64 · to u64 · campaign u64 · count u32 · flags u8
/// position 60 bytes, if flagged           how far the audience has been read
/// suppressed lines u32, if flagged; or suppressed, capped and held out ones, u32 each, if flagged
/// source 8 + 16 bytes, newly doubted u32, if flagged
/// first line u64, and the others too unless they are consecutive
/// offset u64 in the campaign's token file, if flagged: there is nothing but their lines, each of
///   which is the 64 digits of a token and a line end. Otherwise:
/// token lengths u8 each, unless all have 32 bytes
/// tokens
/// codes of own headers u8 each, and their bytes, if flagged: see RingRecord.OwnHeaders
/// payload lengths u16 each and payloads, if flagged; length 0: the campaign's
/// ```
struct EnqueueHeader: Hashable, Sendable {
  /// Notifications that an earlier process took in and that this lane continues.
  struct Source: Hashable, Sendable {
    var lane: UInt64
    var range: Range<UInt64>
    /// How many of them become possible duplicates now.
    var newlyDoubted: Int
  }

  var run: JournalledRun
  /// Nil if nothing new was read.
  var position: AudiencePosition?
  var source: Source?
  /// An earlier connection may have delivered them.
  var isInDoubt = false
  /// Taken over from another lane of the same process. That lane had nothing in flight, so the move
  /// does not resend anything.
  var isMoved = false
  /// Written again, so that the segment with the first record can be deleted.
  var isRewritten = false

  private enum Flag {
    static let position: UInt8 = 1
    static let source: UInt8 = 2
    static let inDoubt: UInt8 = 4
    static let rewritten: UInt8 = 8
    static let moved: UInt8 = 16
    static let suppressed: UInt8 = 32
    static let withheld: UInt8 = 64
  }

  /// The size of the longest header.
  static let byteCountLimit =
    JournalledRun.byteCount + 1 + AudiencePosition.byteCount + WithheldCounts.Form.all.byteCount + 28

  var byteCount: Int {
    JournalledRun.byteCount + 1 + (position.map { AudiencePosition.byteCount + $0.withheld.form.byteCount } ?? 0)
      + (source == nil ? 0 : 28)
  }

  func write(to record: inout RecordWriter) {
    run.write(to: &record)
    var flags: UInt8 = 0
    if position != nil { flags |= Flag.position }
    if source != nil { flags |= Flag.source }
    if isInDoubt { flags |= Flag.inDoubt }
    if isRewritten { flags |= Flag.rewritten }
    if isMoved { flags |= Flag.moved }
    switch position?.withheld.form {
    case .suppressed: flags |= Flag.suppressed
    case .all: flags |= Flag.withheld
    case .nothing, nil: break
    }
    record.write(flags)
    position?.write(to: &record)
    position?.withheld.write(to: &record)
    if let source {
      record.write(source.lane)
      record.write(source.range)
      record.write(UInt32(clamping: source.newlyDoubted))
    }
  }

  init(
    run: JournalledRun, position: AudiencePosition?, source: Source? = nil, isInDoubt: Bool = false,
    isRewritten: Bool = false
  ) {
    (self.run, self.position, self.source) = (run, position, source)
    (self.isInDoubt, self.isRewritten) = (isInDoubt, isRewritten)
  }

  init(reading record: inout RecordReader) throws(RecordError) {
    run = try JournalledRun(reading: &record)
    let flags = try record.read(UInt8.self)
    position = flags & Flag.position == 0 ? nil : try AudiencePosition(reading: &record)
    if flags & (Flag.suppressed | Flag.withheld) != 0 {
      let withheld = try WithheldCounts(flags & Flag.withheld != 0 ? .all : .suppressed, reading: &record)
      position?.withheld = withheld
    }
    if flags & Flag.source != 0 {
      source = Source(
        lane: try record.read(), range: try record.readRange(), newlyDoubted: Int(try record.read(UInt32.self)))
    }
    isInDoubt = flags & Flag.inDoubt != 0
    isRewritten = flags & Flag.rewritten != 0
    isMoved = flags & Flag.moved != 0
  }
}
