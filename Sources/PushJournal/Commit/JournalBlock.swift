/// What other files must have before a record is written, see `Journal.willCommit(_:)`. Each has
/// what those before it have.
package enum Preparation: UInt8, Comparable, Sendable {
  /// What every record needs.
  case least
  case lists
  case all

  package static func < (one: Preparation, other: Preparation) -> Bool { one.rawValue < other.rawValue }
}

/// Memory for the content of one frame. Appenders fill it, the journal's thread writes it, and then
/// it is free again.
///
/// Sync: while a block is being filled, it is used with the journal's lock taken. From then until
/// it is free again, only the journal's thread uses it.
@safe final class JournalBlock: @unchecked Sendable {
  let memory: UnsafeMutableRawBufferPointer
  /// Bytes in use. The first ones are reserved for the frame's header.
  var used = FrameHeader.byteCount
  /// The position of the block's first record.
  var first: UInt64 = 0
  var recordCount = 0
  /// The first record begins a new segment.
  var startsSegment = false
  /// See `Journal.willCommit(_:)`.
  var preparation = Preparation.least

  init(byteCount: Int) { unsafe memory = .allocate(byteCount: byteCount, alignment: 16) }

  deinit { unsafe memory.deallocate() }

  var isEmpty: Bool { recordCount == 0 }

  func reuse() {
    used = FrameHeader.byteCount
    recordCount = 0
    startsSegment = false
    preparation = .least
  }

  /// Reserves room for a record, and writes its length and kind. Returns nil if there is not enough
  /// room. The caller counts the record.
  func reserve(kind: UInt8, byteCount: Int) -> UnsafeMutableRawBufferPointer? {
    let prefix = RecordFormat.prefixByteCount(payloadByteCount: byteCount)
    guard unsafe used + prefix + byteCount <= memory.count, let base = unsafe memory.baseAddress else { return nil }
    _ = unsafe RecordFormat.writePrefix(kind: kind, payloadByteCount: byteCount, to: base + used)
    let payload = unsafe UnsafeMutableRawBufferPointer(rebasing: memory[(used + prefix)..<(used + prefix + byteCount)])
    used += prefix + byteCount
    recordCount += 1
    return unsafe payload
  }
}
