internal import Glibc

/// Writes frames into one segment after the other, and deletes segments that are not needed.
///
/// Sync: used by one thread at a time, the one that runs the journal.
@safe final class SegmentWriter: @unchecked Sendable {
  private struct Closed {
    let name: String
    let byteCount: Int
    /// The position after its last record.
    let end: UInt64
  }

  private let files: any JournalFiles
  private let byteCountLimit: Int
  private let journal: UInt64
  private let compressor = FrameCompressor()
  private let headers = UnsafeMutableRawBufferPointer.allocate(
    byteCount: SegmentHeader.byteCount + FrameHeader.byteCount, alignment: 16)
  private var closed: [Closed]
  private var file: any JournalFile
  private var name: String
  private var number: UInt64
  private var byteCount = 0
  /// Whether the present segment has records.
  private var hasRecords = false
  /// The position of the next record to write.
  private var next: UInt64
  /// Everything before this position is durable.
  private var durable: UInt64
  /// Nothing before `released` is needed. `releasedDurable` is how much of that is durable in a
  /// frame header.
  private var released: UInt64
  private var releasedDurable: UInt64

  /// Creates a new segment behind the recovered ones, and makes it durable.
  init(
    _ files: any JournalFiles, options: JournalOptions, journal: UInt64, recovered: JournalRecovery, number: UInt64
  ) throws(JournalFileError) {
    (self.files, self.journal, self.number) = (files, journal, number)
    byteCountLimit = options.segmentByteCount
    next = recovered.next.rawValue
    durable = next - 1
    released = recovered.released.rawValue
    releasedDurable = released
    closed = recovered.segments.map { Closed(name: $0.name, byteCount: $0.byteCount, end: $0.records.upperBound) }
    name = SegmentName.name(number)
    file = try Self.create(files, number: number)
    try begin()
  }

  private static func create(_ files: any JournalFiles, number: UInt64) throws(JournalFileError) -> any JournalFile {
    // Only a forged file name can lead here. A segment with a larger number would not be found
    // again.
    guard number <= SegmentName.numberLimit else {
      throw JournalFileError(.create, path: SegmentName.name(number), code: EOVERFLOW)
    }
    return try files.create(SegmentName.name(number))
  }

  deinit {
    file.close()
    unsafe headers.deallocate()
  }

  /// The position after the last record of the oldest segment that may be deleted; nil if there is
  /// only one segment.
  var oldestEnd: UInt64? { closed.first?.end }
  var segmentCount: Int { closed.count + 1 }
  /// Bytes on disk of all segments.
  var totalByteCount: Int { closed.reduce(byteCount) { $0 + $1.byteCount } }

  private func header(isClosing: Bool = false) -> FrameHeader {
    FrameHeader(journal: journal, first: next, durable: durable, released: released, isClosing: isClosing)
  }

  /// Writes the first frame of a segment. The frame and the file's name are durable before any
  /// record follows.
  private func begin() throws(JournalFileError) {
    byteCount = 0
    hasRecords = false
    try appendHeader(isFirst: true)
    try sync()
    try files.syncDirectory()
  }

  /// Writes the block as one frame. It becomes durable with ``sync()``.
  func write(_ block: JournalBlock) throws(JournalFileError) {
    precondition(block.first == next, "the block does not follow the last one")
    if hasRecords, block.startsSegment || byteCount >= byteCountLimit { try startSegment() }
    guard let base = unsafe block.memory.baseAddress else { return }
    unsafe header().write(to: base)
    try unsafe append(UnsafeRawBufferPointer(rebasing: block.memory[..<block.used]))
    next += UInt64(block.recordCount)
    hasRecords = true
  }

  private func append(_ content: UnsafeRawBufferPointer) throws(JournalFileError) {
    let frame = unsafe compressor.frame(content)
    try unsafe file.append(frame)
    byteCount += frame.count
  }

  /// Writes a frame without records, for its header only.
  private func appendHeader(isFirst: Bool = false, isClosing: Bool = false) throws(JournalFileError) {
    guard let base = unsafe headers.baseAddress else { return }
    var used = 0
    if isFirst {
      unsafe SegmentHeader(version: SegmentHeader.version, number: number).write(to: base)
      used = SegmentHeader.byteCount
    }
    unsafe header(isClosing: isClosing).write(to: base + used)
    used += FrameHeader.byteCount
    try unsafe append(UnsafeRawBufferPointer(rebasing: headers[..<used]))
  }

  /// Makes everything written so far durable.
  func sync() throws(JournalFileError) {
    try file.sync()
    durable = next - 1
    releasedDurable = released
  }

  private func startSegment() throws(JournalFileError) {
    // This holds for every sync policy: only the last segment may have a torn tail.
    try sync()
    file.close()
    closed.append(Closed(name: name, byteCount: byteCount, end: next))
    number += 1
    name = SegmentName.name(number)
    file = try Self.create(files, number: number)
    try begin()
  }

  /// Deletes the segments that end before `position`, the oldest first.
  func release(before position: UInt64) throws(JournalFileError) {
    released = max(released, position)
    guard let oldest = closed.first, oldest.end <= released else { return }
    // First a frame says which records may be missing. So a segment that is lost for another reason
    // is noticed.
    if releasedDurable < oldest.end || closed.contains(where: { $0.end <= released && $0.end > releasedDurable }) {
      try appendHeader()
      try sync()
    }
    while let oldest = closed.first, oldest.end <= released {
      try files.delete(oldest.name)
      // One at a time. If a crash restored an earlier segment but not a later one, there would be a
      // gap.
      try files.syncDirectory()
      closed.removeFirst()
    }
  }

  /// Deletes recovered segments without records. Each start creates a segment, so they would pile
  /// up.
  func deleteEmpty(_ names: [String]) throws(JournalFileError) {
    for name in names {
      try files.delete(name)
      closed.removeAll { $0.name == name }
    }
    if !names.isEmpty { try files.syncDirectory() }
  }

  /// Marks the end of a journal that was closed properly. Damage before this mark is then
  /// recognised as such.
  func finish() throws(JournalFileError) {
    try sync()
    try appendHeader(isClosing: true)
    try sync()
    file.close()
  }
}
