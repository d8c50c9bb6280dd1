/// A window that moves over a segment. Its memory is bounded, whatever the size of the file.
@safe final class SegmentReader {
  /// Several frames of the largest size, so that bytes are seldom moved.
  private static let capacity = 4 * FrameFormat.byteCountLimit

  let byteCount: Int
  private let file: any JournalFile
  private let memory: UnsafeMutableRawBufferPointer
  /// The part of the file that is in memory.
  private var loaded = 0..<0

  init(_ file: any JournalFile) throws(JournalFileError) {
    self.file = file
    byteCount = try file.byteCount()
    unsafe memory = .allocate(byteCount: min(Self.capacity, max(byteCount, 1)), alignment: 16)
  }

  deinit {
    unsafe memory.deallocate()
    file.close()
  }

  /// Returns the bytes from `offset` to the end of the file, or at least as many as the largest
  /// frame has. They are valid until the next call.
  func bytes(at offset: Int) throws(JournalFileError) -> UnsafeRawBufferPointer {
    let end = min(byteCount, offset + FrameFormat.byteCountLimit)
    if !(loaded.lowerBound <= offset && end <= loaded.upperBound) { try load(from: offset) }
    return unsafe UnsafeRawBufferPointer(
      rebasing: memory[(offset - loaded.lowerBound)..<(loaded.upperBound - loaded.lowerBound)])
  }

  private func load(from offset: Int) throws(JournalFileError) {
    var kept = 0
    if loaded.contains(offset), let base = unsafe memory.baseAddress {
      kept = loaded.upperBound - offset
      unsafe base.copyMemory(from: base + (offset - loaded.lowerBound), byteCount: kept)
    }
    let wanted = unsafe min(memory.count, byteCount - offset) - kept
    let count = try unsafe file.read(
      at: offset + kept, into: UnsafeMutableRawBufferPointer(rebasing: memory[kept..<(kept + wanted)]))
    loaded = offset..<(offset + kept + count)
  }
}
