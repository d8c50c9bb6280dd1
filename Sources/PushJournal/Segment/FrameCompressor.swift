internal import CLZ4

/// Makes one LZ4 frame at a time in a buffer that it keeps.
///
/// Sync: used by one thread at a time, the one that runs the journal.
@safe final class FrameCompressor: @unchecked Sendable {
  private let output: UnsafeMutableRawBufferPointer
  private var preferences = LZ4F_preferences_t()

  init() {
    preferences.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled
    // Any value but 0 asks for the field; the library fills in the real size.
    preferences.frameInfo.contentSize = 1
    // Measured on tokens and on JSON: larger or linked blocks save nothing here, and linked ones take longer.
    preferences.frameInfo.blockSizeID = LZ4F_max64KB
    preferences.frameInfo.blockMode = LZ4F_blockIndependent
    let bound = unsafe LZ4F_compressFrameBound(FrameFormat.contentByteCountLimit, &preferences)
    unsafe output = .allocate(byteCount: bound, alignment: 16)
  }

  deinit { unsafe output.deallocate() }

  /// The frame with `content` (at most `FrameFormat.contentByteCountLimit` bytes); valid until the next call.
  func frame(_ content: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
    precondition(content.count <= FrameFormat.contentByteCountLimit, "a frame with too much content")
    let count = unsafe LZ4F_compressFrame(output.baseAddress, output.count, content.baseAddress, content.count, &preferences)
    // The only errors are wrong preferences and too small a buffer, neither of which depends on the content.
    precondition(LZ4F_isError(count) == 0, "LZ4 refused to make a frame")
    return unsafe UnsafeRawBufferPointer(rebasing: output[..<count])
  }
}
