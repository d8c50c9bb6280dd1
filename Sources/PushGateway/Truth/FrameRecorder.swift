internal import PushTransport
internal import PushWire

/// Collects the lines of one connection for the record.
///
/// A line, without the line break shown here:
/// ```json
/// {"app":"com.example.news","connection":3,"command":2,"identifier":7,
///  "token":"<hex>","payload":"<SHA-256, hex>"}
/// ```
/// A refused frame ends with `"refused":8`; 0 means closed without an error response by the rule
/// `poison`. What a frame lacks is null. Probes are not recorded.
struct FrameRecorder: ~Copyable {
  /// Lines are written when they reach this size. At 64 KiB about three hundred frames share the
  /// cost of one write.
  private static let blockByteCount = 64 << 10

  private let file: RecordFile
  private let head: [UInt8]
  private var lines: [UInt8] = []
  private var lastPayload: [UInt8] = []
  private var lastDigest: [UInt8] = []

  init(file: RecordFile, topic: String, connection: Int) {
    self.file = file
    head = Array("{\"app\":\(JSONText.quoted(topic)),\"connection\":\(connection),\"command\":".utf8)
    // One line beyond the limit is at most a few hundred bytes.
    lines.reserveCapacity(Self.blockByteCount + 1024)
  }

  mutating func append(_ frame: DecodedFrame, refusal: Refusal?) {
    if case .probe = refusal { return }
    lines += head
    unsafe append(number: frame.command.map { Int($0.rawValue) })
    lines += Literal.identifier
    unsafe append(number: frame.identifier.map { Int($0) })
    lines += Literal.token
    if unsafe frame.token.isEmpty { lines += Literal.null } else { unsafe appendQuoted(hexadecimal: frame.token) }
    lines += Literal.payload
    if unsafe frame.payload.isEmpty {
      lines += Literal.null
    } else {
      if unsafe !lastPayload.holdsSameBytes(as: frame.payload) {
        lastPayload.removeAll(keepingCapacity: true)
        unsafe lastPayload.append(contentsOf: frame.payload)
        lastDigest = unsafe Digest.sha256(frame.payload)
      }
      unsafe lastDigest.withUnsafeBytes { unsafe appendQuoted(hexadecimal: $0) }
    }
    switch refusal {
    case .status(let status):
      lines += Literal.refused
      append(number: Int(status.rawValue))
    case .poison:
      lines += Literal.refused
      append(number: 0)
    case nil, .probe: break
    }
    lines += Literal.end
    if lines.count >= Self.blockByteCount { flush() }
  }

  mutating func flush() {
    guard !lines.isEmpty else { return }
    file.append(lines)
    lines.removeAll(keepingCapacity: true)
  }

  private enum Literal {
    static let identifier = Array(",\"identifier\":".utf8)
    static let token = Array(",\"token\":".utf8)
    static let payload = Array(",\"payload\":".utf8)
    static let refused = Array(",\"refused\":".utf8)
    static let null = Array("null".utf8)
    static let end = Array("}\n".utf8)
    static let digits = Array("0123456789abcdef".utf8)
  }

  private mutating func append(number: Int?) {
    if let number { lines.append(contentsOf: String(number).utf8) } else { lines += Literal.null }
  }

  private mutating func appendQuoted(hexadecimal bytes: UnsafeRawBufferPointer) {
    lines.append(0x22)
    for index in 0..<bytes.count {
      let byte = unsafe bytes[index]
      lines.append(Literal.digits[Int(byte >> 4)])
      lines.append(Literal.digits[Int(byte & 15)])
    }
    lines.append(0x22)
  }
}
