/// Memory for the content of one frame. It goes round: filled by appenders, written by the journal's thread, and back.
///
/// Sync: while it is being filled, touched under the journal's lock only; from then until it is handed back, by the journal's thread only.
@safe final class JournalBlock: @unchecked Sendable {
  let memory: UnsafeMutableRawBufferPointer
  /// Bytes in use; the first ones are kept for the frame's header.
  var used = FrameHeader.byteCount
  /// The position of the first record in it.
  var first: UInt64 = 0
  var recordCount = 0
  /// These records begin a new segment.
  var startsSegment = false

  init(byteCount: Int) { unsafe memory = .allocate(byteCount: byteCount, alignment: 16) }

  deinit { unsafe memory.deallocate() }

  var isEmpty: Bool { recordCount == 0 }

  func reuse() {
    used = FrameHeader.byteCount
    recordCount = 0
    startsSegment = false
  }

  /// Makes room for a record, and writes its length and kind. Nil if there is not enough. The caller counts the record.
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
