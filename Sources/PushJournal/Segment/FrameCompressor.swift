internal import CLZ4

/// Compresses one LZ4 frame at a time into a buffer that it keeps.
///
/// Sync: used by one thread at a time, the one that runs the journal.
@safe final class FrameCompressor: @unchecked Sendable {
  private let output: UnsafeMutableRawBufferPointer
  private var preferences = LZ4F_preferences_t()

  init() {
    // Any value except 0 requests the field. The library fills in the real size.
    preferences.frameInfo.contentSize = 1
    // Measured with tokens and with JSON: larger or linked blocks save nothing, and linked blocks
    // take longer.
    preferences.frameInfo.blockSizeID = LZ4F_max64KB
    preferences.frameInfo.blockMode = LZ4F_blockIndependent
    let bound = unsafe LZ4F_compressFrameBound(FrameFormat.contentByteCountLimit, &preferences)
    unsafe output = .allocate(byteCount: bound + Self.checksumByteCount, alignment: 16)
  }

  deinit { unsafe output.deallocate() }

  private static let checksumByteCount = 4

  /// Returns a frame with `content`, which has 1 to `FrameFormat.contentByteCountLimit` bytes. The
  /// frame is valid until the next call.
  func frame(_ content: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
    precondition((1...FrameFormat.contentByteCountLimit).contains(content.count), "a frame of no or too many bytes")
    let count = unsafe LZ4F_compressFrame(
      output.baseAddress, output.count - Self.checksumByteCount, content.baseAddress, content.count, &preferences)
    // The only errors are wrong preferences and a buffer that is too small. Neither depends on the
    // content.
    precondition(LZ4F_isError(count) == 0, "LZ4 could not compress a frame")
    unsafe output.storeBytes(of: ContentChecksum.of(content).littleEndian, toByteOffset: count, as: UInt32.self)
    // The header says that there is one (LZ4 frame format 1.6, "Frame Descriptor").
    unsafe output[4] |= 0b100
    let header = unsafe UnsafeRawBufferPointer(rebasing: output[4..<FrameFormat.headerByteCount - 1])
    unsafe output[FrameFormat.headerByteCount - 1] = UInt8(truncatingIfNeeded: ContentChecksum.of(header) >> 8)
    return unsafe UnsafeRawBufferPointer(rebasing: output[..<(count + Self.checksumByteCount)])
  }
}
