internal import CLZ4
internal import Glibc

/// Decodes LZ4 frames of a segment and checks everything that one frame shows by itself.
@safe final class SegmentFrameDecoder {
  /// A whole, sound frame. The content is valid until the next frame is decoded.
  @safe struct Frame {
    let byteCount: Int
    let segment: SegmentHeader?
    let header: FrameHeader
    let recordCount: UInt64
    let content: UnsafeRawBufferPointer
    /// The offset in `content` at which the callers' records begin.
    let recordsOffset: Int

    /// The position after the frame's last record.
    var end: UInt64 { header.first + recordCount }
  }

  enum Result {
    case frame(Frame)
    case problem(JournalDamage.Problem)
  }

  private let output: UnsafeMutableRawBufferPointer
  private var context: OpaquePointer?

  /// - Parameter path: of the journal, for the error's sentence.
  /// - Throws: `ENOMEM`.
  init(path: String) throws(JournalFileError) {
    let result = unsafe LZ4F_createDecompressionContext(&context, UInt32(LZ4F_VERSION))
    guard LZ4F_isError(result) == 0 else { throw JournalFileError(.read, path: path, code: ENOMEM) }
    unsafe output = .allocate(byteCount: FrameFormat.contentByteCountLimit, alignment: 16)
  }

  deinit {
    unsafe LZ4F_freeDecompressionContext(context)
    unsafe output.deallocate()
  }

  /// Decodes the frame at the start of `bytes`, which extend to the end of the file or for at least
  /// `FrameFormat.byteCountLimit` bytes.
  func decode(_ bytes: UnsafeRawBufferPointer) -> Result {
    let byteCount: Int
    let contentByteCount: Int
    switch FrameFormat.measure(unsafe Span(_unsafeBytes: bytes)) {
    case .problem(let problem): return .problem(problem)
    case .frame(let whole, let content): (byteCount, contentByteCount) = (whole, content)
    }
    var produced = contentByteCount
    var consumed = byteCount
    var options = LZ4F_decompressOptions_t()
    options.stableDst = 1
    let hint = unsafe LZ4F_decompress(context, output.baseAddress, &produced, bytes.baseAddress, &consumed, &options)
    guard hint == 0, produced == contentByteCount, consumed == byteCount else {
      unsafe LZ4F_resetDecompressionContext(context)
      let isError = LZ4F_isError(hint) != 0
      return .problem(
        .unreadable(isError ? unsafe String(cString: LZ4F_getErrorName(hint)) : "more or less content than announced"))
    }
    return unsafe parse(UnsafeRawBufferPointer(rebasing: output[..<contentByteCount]), byteCount: byteCount)
  }

  private func parse(_ memory: UnsafeRawBufferPointer, byteCount: Int) -> Result {
    let content = unsafe Span<UInt8>(_unsafeBytes: memory)
    guard var record = RecordFormat.read(content, at: 0), record.kind == RecordFormat.ownKind else {
      return .problem(.malformed)
    }
    let segment = SegmentHeader.read(payload: content.extracting(record.payload))
    if let segment {
      guard segment.version == SegmentHeader.version else { return .problem(.version(segment.version)) }
      guard let next = RecordFormat.read(content, at: record.payload.upperBound),
        next.kind == RecordFormat.ownKind
      else { return .problem(.malformed) }
      record = next
    }
    guard let header = FrameHeader.read(payload: content.extracting(record.payload)) else {
      return .problem(.malformed)
    }
    let recordsOffset = record.payload.upperBound
    var offset = recordsOffset
    var count: UInt64 = 0
    while offset < content.count {
      guard let record = RecordFormat.read(content, at: offset), record.kind != RecordFormat.ownKind else {
        return .problem(.malformed)
      }
      offset = record.payload.upperBound
      count += 1
    }
    return .frame(
      unsafe Frame(
        byteCount: byteCount, segment: segment, header: header, recordCount: count, content: memory,
        recordsOffset: recordsOffset))
  }
}
