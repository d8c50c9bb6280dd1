internal import PushGateway
internal import PushTransport
internal import PushWire

/// A connection to the HTTP/2 service without sockets, in virtual time, and all its output.
final class ServiceDriver {
  static let payload = Array(#"{"aps":{"alert":"Hello"}}"#.utf8)
  static let topic = "com.example.news"
  static let token = Frames.token(1)
  /// The service's time, in seconds since 1970, when the driver's clock is at zero.
  static let epoch: Int64 = 1_800_000_000

  let service: SimulatedService
  let memory: RecordedRequests
  let connection: ServiceConnection
  private(set) var now: Instant
  private(set) var frames: [HTTP2Wire.Frame] = []
  private var inbox: [UInt8] = []
  private var nextStream: Int32 = 1
  /// Sent with each request, unless the request overrides them.
  var defaults: [(String, String)] = [
    (":method", "POST"), (":scheme", "https"), (":authority", "localhost"), ("apns-topic", topic),
  ]

  static func service(
    _ rules: FaultRules = FaultRules(), keys: [ServiceKey] = []
  ) -> (SimulatedService, RecordedRequests) {
    let memory = RecordedRequests()
    let service = SimulatedService(rules: rules, keys: keys, memory: memory) {
      epoch * 1000 + Int64($0.nanoseconds / 1_000_000)
    }
    return (service, memory)
  }

  init(
    _ made: (SimulatedService, RecordedRequests),
    client: ServiceClient = ServiceClient(topics: [topic], userIdentifier: topic),
    for purpose: ServiceConnection.Purpose = .notifications, now: Instant = .start + .seconds(1)
  ) throws {
    (service, memory) = made
    self.now = now
    connection = try service.connect(client, for: purpose, now: now)
    receive(HTTP2Wire.preface + HTTP2Wire.settings + HTTP2Wire.settingsAcknowledgement)
  }

  /// The first connection of a service with these faults, by certificate.
  convenience init(faults: (inout ServiceFaults) -> Void, rules: (inout FaultRules) -> Void = { _ in }) throws {
    var all = FaultRules()
    faults(&all.common.http2)
    rules(&all)
    try self.init(Self.service(all))
  }

  func receive(_ bytes: [UInt8]) {
    unsafe bytes.withUnsafeBytes { unsafe connection.received($0, now: now) }
    takeOutput()
  }

  /// Advances the time and wakes the connection at each of its wake times.
  func pass(_ duration: Duration) {
    let end = now + duration
    while let wake = connection.nextWake, wake <= end {
      now = max(now, wake)
      connection.woken(now: now)
      takeOutput()
    }
    now = end
    connection.woken(now: now)
    takeOutput()
  }

  func shutDown() {
    connection.shutDown(now: now)
    takeOutput()
  }

  /// The bytes of a request, and its stream. Fields replace defaults of the same name; an empty
  /// value removes a default.
  func request(
    path: String? = nil, token: [UInt8] = token, _ fields: [(String, String)] = [], body: [UInt8] = payload
  ) -> (stream: Int32, bytes: [UInt8]) {
    let stream = nextStream
    nextStream += 2
    var all = [(":path", path ?? "/3/device/" + Digest.hexadecimal(token))]
    all = defaults.filter { entry in !fields.contains { $0.0 == entry.0 } } + all
    // Pseudo-headers come first.
    let complete = (all + fields).filter { !$0.1.isEmpty }
    let ordered = complete.filter { $0.0.hasPrefix(":") } + complete.filter { !$0.0.hasPrefix(":") }
    return (stream, HTTP2Wire.request(stream, ordered, body: body))
  }

  @discardableResult
  func send(
    path: String? = nil, token: [UInt8] = token, _ fields: [(String, String)] = [], body: [UInt8] = payload
  ) -> Int32 {
    let made = request(path: path, token: token, fields, body: body)
    receive(made.bytes)
    return made.stream
  }

  /// Sends several requests in one read, to the tokens with these numbers.
  @discardableResult
  func send(numbers: ClosedRange<UInt32>, _ fields: [(String, String)] = []) -> [Int32] {
    let made = numbers.map { request(token: Frames.token($0), fields) }
    receive(made.flatMap(\.bytes))
    return made.map(\.stream)
  }

  func ended() -> ServiceTruth {
    connection.ended()
    return service.truth()[Self.topic] ?? ServiceTruth()
  }

  private func takeOutput() {
    while true {
      let bytes = unsafe connection.output()
      guard bytes.count > 0 else { break }
      unsafe inbox += Array(bytes)
    }
    frames += HTTP2Wire.take(&inbox)
  }

  // MARK: What came

  /// Nil: no response yet. 200: a response without a body. Otherwise the body.
  func answer(_ stream: Int32) -> String? {
    guard let head = frames.first(where: { $0.type == 1 && $0.stream == stream }) else { return nil }
    if head.flags & 1 != 0 { return head.payload.first == 0x88 ? "200" : "no body" }
    return frames.filter { $0.type == 0 && $0.stream == stream }.map(\.text).joined()
  }

  /// The reason in a response; nil: the response has none.
  func reason(_ stream: Int32) -> String? {
    guard let body = answer(stream), body.hasPrefix(#"{"reason":""#) else { return nil }
    return String(body.dropFirst(11).prefix { $0 != "\"" })
  }

  /// The code of the RST_STREAM of a stream.
  func reset(_ stream: Int32) -> UInt32? { frames.first { $0.type == 3 && $0.stream == stream }?.word(at: 0) }

  var goAways: [(lastStreamID: Int32, code: UInt32, text: String)] {
    frames.filter { $0.type == 7 }.map {
      (Int32($0.word(at: 0)), $0.word(at: 4), String(decoding: $0.payload.dropFirst(8), as: UTF8.self))
    }
  }

  /// All announced limits of concurrent streams.
  var limits: [UInt32] {
    frames.filter { $0.type == 4 && $0.flags & 1 == 0 }.flatMap { frame in
      stride(from: 0, to: frame.payload.count - 5, by: 6).compactMap {
        frame.payload[$0 + 1] == 3 ? frame.word(at: $0 + 2) : nil
      }
    }
  }
}
