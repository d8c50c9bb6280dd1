internal import PushTransport
internal import PushWire

/// Collects the lines of one HTTP/2 connection for the record.
///
/// A line, without the line breaks shown here:
/// ```json
/// {"app":"com.example.news","connection":3,"stream":7,"at":81223017,
///  "topic":"com.example.news","type":"alert","id":"<apns-id>",
///  "token":"<hex>","payload":"<SHA-256, hex>"}
/// ```
/// - `at` is the time by the machine's monotonic clock, in milliseconds.
/// - A broadcast has `"channel":"…"` and no token.
/// - `"priority"`, `"expiration"` and `"collapse"` appear where the client sent them.
/// - `"answered":false` means that a rule withheld the response.
/// - A refused request ends with `"refused":"400 BadDeviceToken"`.
///
/// What a request lacks is null.
struct RequestRecorder: ~Copyable {
  private let connection: Int
  private var lines: RecordLines
  private var head: [UInt8] = []
  private var headApp = ""

  private enum Key {
    static let at = Array(",\"at\":".utf8)
    static let topic = Array(",\"topic\":".utf8)
    static let type = Array(",\"type\":".utf8)
    static let identifier = Array(",\"id\":".utf8)
    static let priority = Array(",\"priority\":".utf8)
    static let expiration = Array(",\"expiration\":".utf8)
    static let collapse = Array(",\"collapse\":".utf8)
    static let channel = Array(",\"channel\":".utf8)
    static let unanswered = Array(",\"answered\":false".utf8)
  }

  init(file: RecordFile, connection: Int) {
    self.connection = connection
    lines = RecordLines(file: file, lineByteCount: 2048)
  }

  /// - Parameter made: The identifier that the service responds with where the client sent no valid
  ///   one; otherwise nil.
  mutating func append(
    _ request: ServiceRequest, at now: Instant, app: String, token: UnsafeRawBufferPointer, made: APNSIdentifier?,
    refusal: ServiceRefusal?, isAnswered: Bool
  ) {
    if head.isEmpty || headApp != app {
      headApp = app
      head = Array("{\"app\":\(JSONText.quoted(app)),\"connection\":\(connection),\"stream\":".utf8)
    }
    lines.append(head)
    lines.append(number: Int(request.streamID))
    lines.append(Key.at)
    lines.append(number: Int(now.nanoseconds / 1_000_000))
    unsafe lines.append(Key.topic, request.topic)
    unsafe lines.append(Key.type, request.pushType)
    if let made { lines.append(Key.identifier, made) } else { unsafe lines.append(Key.identifier, request.identifier) }
    if unsafe request.priority != nil { unsafe lines.append(Key.priority, request.priority) }
    if unsafe request.expiration != nil { unsafe lines.append(Key.expiration, request.expiration) }
    if unsafe request.collapseIdentifier != nil { unsafe lines.append(Key.collapse, request.collapseIdentifier) }
    if unsafe request.channel != nil { unsafe lines.append(Key.channel, request.channel) }
    unsafe lines.append(token: token)
    unsafe lines.append(payload: request.body)
    if !isAnswered { lines.append(Key.unanswered) }
    if let refusal { lines.append(refusedAs: refusal.description) }
    lines.endLine()
  }

  mutating func flush() { lines.flush() }
}
