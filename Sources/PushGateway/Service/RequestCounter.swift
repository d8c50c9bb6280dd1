/// Counts complete requests by the frames that an HTTP/2 client sends. It also counts requests that
/// the HTTP/2 session drops silently, such as those after a GOAWAY. It does not decode headers.
struct RequestCounter {
  private enum Kind {
    static let data: UInt64 = 0
    static let headers: UInt64 = 1
    static let continuation: UInt64 = 9
  }

  private static let endOfStream: UInt64 = 1
  private static let endOfHeaders: UInt64 = 4

  private(set) var complete = 0
  private var prefaceLeft = 24
  /// How many of the nine bytes of a frame's header have been read.
  private var headerCount = 0
  /// The first five bytes of the header: length, type and flags.
  private var header: UInt64 = 0
  private var payloadLeft = 0
  /// A request without a body whose header block is not complete.
  private var endsWithHeaders = false

  /// The client's next bytes, cut anywhere, beginning with the preface.
  mutating func take(_ bytes: UnsafeRawBufferPointer) {
    var offset = min(prefaceLeft, bytes.count)
    prefaceLeft -= offset
    while offset < bytes.count {
      if headerCount == 9 {
        let present = min(payloadLeft, bytes.count - offset)
        payloadLeft -= present
        offset += present
      } else {
        if headerCount < 5 { header = unsafe header << 8 | UInt64(bytes[offset]) }
        headerCount += 1
        offset += 1
        if headerCount == 9 { payloadLeft = Int(header >> 16) }
      }
      if headerCount == 9, payloadLeft == 0 { finishFrame() }
    }
  }

  private mutating func finishFrame() {
    let (kind, flags) = (header >> 8 & 0xFF, header & 0xFF)
    (header, headerCount) = (0, 0)
    let ends = flags & Self.endOfStream != 0
    switch kind {
    case Kind.data: if ends { complete += 1 }
    case Kind.headers:
      guard ends else { return }
      if flags & Self.endOfHeaders != 0 { complete += 1 } else { endsWithHeaders = true }
    case Kind.continuation:
      guard endsWithHeaders, flags & Self.endOfHeaders != 0 else { return }
      endsWithHeaders = false
      complete += 1
    default: break
    }
  }
}
