internal import PushTransport
internal import PushWire

/// Collects the lines of one HTTP/2 connection for the record.
///
/// A line, without the line breaks shown here:
/// ```json
/// {"app":"com.example.news","connection":3,"stream":7,
///  "topic":"com.example.news","type":"alert","id":"<apns-id>",
///  "token":"<hex>","payload":"<SHA-256, hex>"}
/// ```
/// - A broadcast has `"channel":"…"` and no token.
/// - `"priority"`, `"expiration"` and `"collapse"` appear where the client sent them.
/// - `"answered":false` means that a rule withheld the response.
/// - A refused request ends with `"refused":"400 BadDeviceToken"`.
///
/// What a request lacks is null.
struct RequestRecorder: ~Copyable {
  private static let blockByteCount = 64 << 10

  private let file: RecordFile
  private let connection: Int
  private var lines: [UInt8] = []
  private var head: [UInt8] = []
  private var headApp = ""
  private var lastPayload: [UInt8] = []
  private var lastDigest: [UInt8] = []

  init(file: RecordFile, connection: Int) {
    self.file = file
    self.connection = connection
    lines.reserveCapacity(Self.blockByteCount + 2048)
  }

  /// - Parameter made: The identifier that the service responds with where the client sent no valid
  ///   one; otherwise nil.
  mutating func append(
    _ request: ServiceRequest, app: String, token: UnsafeRawBufferPointer, made: APNSIdentifier?, refusal: ServiceRefusal?, isAnswered: Bool
  ) {
    if head.isEmpty || headApp != app {
      headApp = app
      head = Array("{\"app\":\(JSONText.quoted(app)),\"connection\":\(connection),\"stream\":".utf8)
    }
    lines += head
    append(decimal: Int(request.streamID))
    unsafe append(Literal.topic, request.topic)
    unsafe append(Literal.type, request.pushType)
    if let made { append(Literal.identifier, made) } else { unsafe append(Literal.identifier, request.identifier) }
    if unsafe request.priority != nil { unsafe append(Literal.priority, request.priority) }
    if unsafe request.expiration != nil { unsafe append(Literal.expiration, request.expiration) }
    if unsafe request.collapseIdentifier != nil { unsafe append(Literal.collapse, request.collapseIdentifier) }
    if unsafe request.channel != nil { unsafe append(Literal.channel, request.channel) }
    lines += Literal.token
    if token.count == 0 { lines += Literal.null } else { unsafe appendQuoted(hexadecimal: token) }
    lines += Literal.payload
    if unsafe request.body.isEmpty {
      lines += Literal.null
    } else {
      if unsafe !lastPayload.holdsSameBytes(as: request.body) {
        lastPayload.removeAll(keepingCapacity: true)
        unsafe lastPayload.append(contentsOf: request.body)
        lastDigest = unsafe Digest.sha256(request.body)
      }
      unsafe lastDigest.withUnsafeBytes { unsafe appendQuoted(hexadecimal: $0) }
    }
    if !isAnswered { lines += Literal.unanswered }
    if let refusal {
      lines += Literal.refused
      lines += Array(JSONText.quoted(refusal.description).utf8)
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
    static let topic = Array(",\"topic\":".utf8)
    static let type = Array(",\"type\":".utf8)
    static let identifier = Array(",\"id\":".utf8)
    static let priority = Array(",\"priority\":".utf8)
    static let expiration = Array(",\"expiration\":".utf8)
    static let collapse = Array(",\"collapse\":".utf8)
    static let channel = Array(",\"channel\":".utf8)
    static let token = Array(",\"token\":".utf8)
    static let payload = Array(",\"payload\":".utf8)
    static let unanswered = Array(",\"answered\":false".utf8)
    static let refused = Array(",\"refused\":".utf8)
    static let null = Array("null".utf8)
    static let end = Array("}\n".utf8)
    static let digits = Array("0123456789abcdef".utf8)
  }

  /// Appends a text as the client wrote it. Nearly all texts need no escapes and are copied.
  private mutating func append(_ key: [UInt8], _ value: UnsafeRawBufferPointer?) {
    lines += key
    guard let value = unsafe value else { return lines += Literal.null }
    let isPlain = unsafe value.allSatisfy { $0 >= 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
    guard isPlain else { return unsafe lines += Array(JSONText.quoted(Text.string(value)).utf8) }
    lines.append(0x22)
    unsafe lines.append(contentsOf: value)
    lines.append(0x22)
  }

  private mutating func append(_ key: [UInt8], _ identifier: APNSIdentifier) {
    lines += key
    lines.append(0x22)
    unsafe withUnsafeTemporaryAllocation(byteCount: APNSIdentifier.textByteCount, alignment: 1) { text in
      unsafe identifier.write(into: text)
      unsafe lines.append(contentsOf: text)
    }
    lines.append(0x22)
  }

  private mutating func append(decimal number: Int) {
    var divisor = 1
    while number / divisor >= 10 { divisor *= 10 }
    while divisor > 0 {
      lines.append(0x30 + UInt8(number / divisor % 10))
      divisor /= 10
    }
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
