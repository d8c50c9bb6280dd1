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
  private let head: [UInt8]
  private var lines: RecordLines

  private static let identifier = Array(",\"identifier\":".utf8)

  init(file: RecordFile, topic: String, connection: Int) {
    head = Array("{\"app\":\(JSONText.quoted(topic)),\"connection\":\(connection),\"command\":".utf8)
    lines = RecordLines(file: file, lineByteCount: 1024)
  }

  mutating func append(_ frame: DecodedFrame, refusal: Refusal?) {
    if case .probe = refusal { return }
    lines.append(head)
    lines.append(number: frame.command.map { Int($0.rawValue) })
    lines.append(Self.identifier)
    lines.append(number: frame.identifier.map { Int($0) })
    unsafe frame.token.withUnsafeBytes { unsafe lines.append(token: $0) }
    unsafe frame.payload.withUnsafeBytes { unsafe lines.append(payload: $0) }
    switch refusal {
    case .status(let status): lines.append(refusedAs: Int(status.rawValue))
    case .poison: lines.append(refusedAs: 0)
    case nil, .probe: break
    }
    lines.endLine()
  }

  mutating func flush() { lines.flush() }
}
