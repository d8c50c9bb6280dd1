internal import Glibc

/// Reads all segments in order and passes on their records.
///
/// A frame that is not whole or not sound at the end of the *last* segment is a torn tail: it was
/// being written when the process or the machine stopped. Each frame says what was durable when it
/// was written. If a later sound frame says that records of the unsound place were durable, that
/// place is damage. An unsound frame anywhere else is damage, because a segment is synced before
/// the next one is created.
struct JournalScanner {
  /// Called for each record. The bytes are valid during the call.
  typealias Body = (JournalPosition, UInt8, Span<UInt8>) -> Void

  private let files: any JournalFiles
  private let skipsDamage: Bool
  private let decoder: SegmentFrameDecoder
  private var found = JournalRecovery()
  /// The journal's number; nil until a frame has been read.
  private(set) var journal: UInt64?
  /// The position that the next record must have; nil until a frame has been read.
  private var expected: UInt64?
  /// The place before this one was unsound. A gap in the positions is then part of that damage, not
  /// new damage.
  private var isBehindDamage = false
  private var firstFound: UInt64?

  init(_ files: any JournalFiles, skipsDamage: Bool) throws(JournalError) {
    (self.files, self.skipsDamage) = (files, skipsDamage)
    decoder = try JournalError.wrapping { () throws(JournalFileError) in try SegmentFrameDecoder(path: files.path) }
  }

  mutating func scan(_ body: Body) throws(JournalError) -> JournalRecovery {
    var segments: [(number: UInt64, name: String)] = []
    for name in try JournalError.wrapping({ () throws(JournalFileError) in try files.list() }) {
      if let number = SegmentName.number(name) { segments.append((number, name)) }
    }
    segments.sort { $0.number < $1.number }
    for (index, segment) in segments.enumerated() {
      try scan(segment.name, number: segment.number, isLast: index == segments.count - 1, body)
    }
    if let expected { found.next = JournalPosition(rawValue: expected) }
    // Only released records may be missing at the beginning.
    let start = max(found.released.rawValue, 1)
    if let first = firstFound, first > start, let segment = found.segments.first {
      try damaged(segment.name, at: 0, .missing(start..<first))
      found.lostRecordCount += first - start
    }
    return found
  }

  private mutating func scan(_ name: String, number: UInt64, isLast: Bool, _ body: Body) throws(JournalError) {
    let reader: SegmentReader
    do {
      reader = try SegmentReader(files.open(name, writable: false))
    } catch {
      // The owner has deleted the segment since its name was listed. If the owner was wrong, the
      // records behind it show a gap.
      if error.code == ENOENT { return }
      throw .file(error)
    }
    var records: Range<UInt64>?
    var offset = 0
    found.isClosed = false
    // Even an empty file should have a first frame.
    while offset < reader.byteCount || (offset == 0 && reader.byteCount == 0) {
      var problem: JournalDamage.Problem?
      var frameByteCount = 1
      switch unsafe decoder.decode(try read(reader, at: offset)) {
      case .problem(let unsound): problem = unsound
      case .frame(let frame):
        frameByteCount = frame.byteCount
        problem = check(frame, number: number, isFirst: offset == 0)
        if problem == nil {
          take(frame, body)
          records = (records?.lowerBound ?? frame.header.first)..<frame.end
        }
      }
      guard let problem else {
        offset += frameByteCount
        continue
      }
      if case .missing = problem {
        // The frame itself is sound. After the gap before it has been reported, it is read next.
        try damaged(name, at: offset, problem)
        isBehindDamage = true
        continue
      }
      let rest = try lookBehind(reader, from: offset + frameByteCount)
      if isLast, problem.canBeTorn, !rest.shows(durable: expected),
        // The first frame of a segment is synced before anything is written behind it.
        offset > 0 || (reader.byteCount <= SegmentHeader.frameByteCountLimit && rest.frameCount == 0)
      {
        found.tornTail = JournalRecovery.TornTail(
          segment: name, offset: offset, byteCount: reader.byteCount - offset, frameCount: rest.frameCount)
        break
      }
      try damaged(name, at: offset, problem)
      isBehindDamage = true
      let next = max(rest.firstOffset ?? reader.byteCount, 1)
      found.lostByteCount += min(next, reader.byteCount) - offset
      offset = next
    }
    if records != nil || found.isClosed { found.recordsAreClosed = found.isClosed }
    let end = records?.upperBound ?? expected ?? 0
    found.segments.append(
      JournalRecovery.Segment(name: name, number: number, byteCount: reader.byteCount, records: records ?? end..<end))
  }

  private func read(_ reader: SegmentReader, at offset: Int) throws(JournalError) -> UnsafeRawBufferPointer {
    do { return try unsafe reader.bytes(at: offset) } catch { throw .file(error) }
  }

  /// The problem of a sound frame at this place; nil if it has none.
  private mutating func check(
    _ frame: SegmentFrameDecoder.Frame, number: UInt64, isFirst: Bool
  ) -> JournalDamage.Problem? {
    if let journal, frame.header.journal != journal { return .otherJournal }
    if let segment = frame.segment, segment.number != number { return .wrongNumber(segment.number) }
    // Behind damage, any frame of the segment may be the first sound one.
    if (frame.segment != nil) != isFirst, !(isBehindDamage && !isFirst && frame.segment == nil) {
      return .noSegmentHeader
    }
    guard let expected else { return nil }
    if frame.header.first < expected { return .repeated(first: frame.header.first) }
    if frame.header.first > expected {
      guard isBehindDamage else { return .missing(expected..<frame.header.first) }
      found.lostRecordCount += frame.header.first - expected
    }
    return nil
  }

  private mutating func take(_ frame: SegmentFrameDecoder.Frame, _ body: Body) {
    isBehindDamage = false
    journal = frame.header.journal
    if firstFound == nil { firstFound = frame.header.first }
    found.released = max(found.released, JournalPosition(rawValue: frame.header.released))
    found.isClosed = frame.header.isClosing
    var position = frame.header.first
    var offset = frame.recordsOffset
    let content = unsafe Span<UInt8>(_unsafeBytes: frame.content)
    // The decoder has checked that the content consists of whole records.
    while let record = RecordFormat.read(content, at: offset) {
      body(JournalPosition(rawValue: position), record.kind, content.extracting(record.payload))
      position += 1
      offset = record.payload.upperBound
    }
    expected = position
    found.recordCount += Int(frame.recordCount)
  }

  private mutating func damaged(_ name: String, at offset: Int, _ problem: JournalDamage.Problem) throws(JournalError) {
    if case .version(let version) = problem { throw .version(segment: name, version) }
    let damage = JournalDamage(segment: name, offset: offset, problem: problem)
    guard skipsDamage else { throw .damaged(damage) }
    found.damage.append(damage)
  }

  /// The sound frames of this journal and segment behind an unsound place.
  private struct Rest {
    var firstOffset: Int?
    var frameCount = 0
    var durable: UInt64 = 0

    /// Whether these frames prove that records of the unsound place were durable, or may have been.
    func shows(durable first: UInt64?) -> Bool {
      guard let first else { return frameCount > 0 }
      return durable >= first
    }
  }

  private func lookBehind(_ reader: SegmentReader, from start: Int) throws(JournalError) -> Rest {
    var rest = Rest()
    var offset = start
    while offset < reader.byteCount {
      let bytes = try unsafe read(reader, at: offset)
      guard let candidate = FrameFormat.firstMagic(in: unsafe Span(_unsafeBytes: bytes)) else {
        // A magic number may begin in the last three bytes.
        offset += max(1, bytes.count - 3)
        continue
      }
      offset += candidate
      guard case .frame(let frame) = unsafe decoder.decode(try read(reader, at: offset)), belongs(frame) else {
        offset += 1
        continue
      }
      if rest.firstOffset == nil { rest.firstOffset = offset }
      rest.frameCount += 1
      rest.durable = max(rest.durable, frame.header.durable)
      offset += frame.byteCount
    }
    return rest
  }

  /// Whether a frame that was found by searching can be one of this segment. The journal's random
  /// number excludes a frame that is part of a payload.
  private func belongs(_ frame: SegmentFrameDecoder.Frame) -> Bool {
    if let journal, frame.header.journal != journal { return false }
    guard frame.segment == nil else { return false }
    guard let expected else { return true }
    return frame.header.first >= expected
  }
}
