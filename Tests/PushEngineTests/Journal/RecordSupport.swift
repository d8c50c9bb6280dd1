internal import PushJournal
internal import PushTransport
internal import PushWire
internal import Support

@testable internal import PushEngine

/// A notification that owns its memory.
struct TestNotification: Hashable {
  var line: UInt64
  var token: [UInt8]
  var identifier: APNSIdentifier?
  var expiration: UInt32?
  var collapse: [UInt8] = []
  var payload: [UInt8] = []

  var blockCount: UInt64 {
    UInt64(
      RingRecord.blockCount(
        tokenByteCount: token.count,
        payloadByteCount: (identifier == nil ? 0 : 16) + (expiration == nil ? 0 : 4) + collapse.count + payload.count))
  }

  init(line: UInt64, token: [UInt8], payload: [UInt8] = []) {
    self.line = line
    self.token = token
    self.payload = payload
  }

  init(_ notification: EnqueuedNotification) {
    self.init(
      line: notification.line, token: unsafe Array(notification.token), payload: unsafe Array(notification.payload))
    identifier = notification.headers.identifier
    expiration = notification.headers.expiration
    collapse = unsafe Array(notification.headers.collapseIdentifier)
  }
}

struct TestSource: EnqueueSource {
  var notifications: [TestNotification]

  func forEach(_ body: (EnqueuedNotification) -> Void) {
    for notification in notifications {
      unsafe notification.token.withUnsafeBytes { token in
        unsafe notification.payload.withUnsafeBytes { payload in
          withOwnHeaders(
            identifier: notification.identifier, expiration: notification.expiration, collapse: notification.collapse
          ) { headers in
            unsafe body(
              EnqueuedNotification(
                line: notification.line, token: token, headersCode: headers.code,
                headersStart: headers.bytes.baseAddress, payload: payload))
          }
        }
      }
    }
  }

  var shape: EnqueueShape {
    var shape = EnqueueShape()
    forEach { shape.add($0) }
    return shape
  }
}

/// Records as bytes.
enum Record {
  /// The bytes that `write` writes into memory of exactly `byteCount` bytes; nil if it writes
  /// another number.
  static func bytes(_ byteCount: Int, _ write: (inout RecordWriter) -> Void) -> [UInt8]? {
    let bytes = unsafe writingExactBytes(byteCount) { memory in
      var record = unsafe RecordWriter(memory)
      write(&record)
      return record.byteCount
    }
    return bytes.count == byteCount ? bytes : nil
  }

  static func bytes(_ event: JournalEvent) -> [UInt8]? { bytes(event.byteCount) { event.write(to: &$0) } }
  static func bytes(_ campaign: JournalledCampaign) -> [UInt8]? {
    bytes(campaign.byteCount) { campaign.write(to: &$0) }
  }
  static func bytes(_ lane: JournalledLane) -> [UInt8]? { bytes(lane.record.byteCount) { lane.record.write(to: &$0) } }

  static func bytes(_ header: EnqueueHeader, _ source: TestSource) -> [UInt8]? {
    let shape = source.shape
    return bytes(header.byteCount + shape.byteCount) { record in
      header.write(to: &record)
      shape.write(source, to: &record)
    }
  }

  static func payload(_ number: UInt64, _ payload: [UInt8]) -> [UInt8]? {
    bytes(8 + RecordWriter.byteCount(payload)) { record in
      record.write(number)
      record.write(payload)
    }
  }

  /// Reads a complete record.
  static func read<Value>(_ bytes: [UInt8], _ body: (inout RecordReader) throws -> Value) throws -> Value {
    try unsafe withExactBytes(bytes) { memory in
      var record = RecordReader(unsafe Span(_unsafeBytes: memory))
      let value = try body(&record)
      try record.finish()
      return value
    }
  }
}

/// Notifications whose tokens lie in a token file: lines that are nothing but a token.
struct TokenLines {
  /// What precedes them in the file.
  var offset: UInt64
  var firstLine: UInt64
  var tokens: [[UInt8]]

  var shape: EnqueueShape {
    EnqueueShape(plainCount: tokens.count, firstLine: firstLine, linesFollow: true, fileOffset: offset)
  }

  var notifications: [TestNotification] {
    tokens.enumerated().map { TestNotification(line: firstLine &+ UInt64($0), token: $1) }
  }

  func bytes(_ header: EnqueueHeader) -> [UInt8]? {
    Record.bytes(header.byteCount + shape.byteCount) { record in
      header.write(to: &record)
      shape.write(TestSource(notifications: notifications), to: &record)
    }
  }

  /// Reads whole lines.
  func read(_ offset: UInt64, _ count: Int) throws(AudienceError) -> [UInt8] {
    let (index, rest) = (offset - self.offset).quotientAndRemainder(
      dividingBy: UInt64(AudienceReader.bareLineByteCount))
    guard rest == 0, Int(index) + count <= tokens.count else {
      throw AudienceError(path: nil, problem: .noTokens(at: offset))
    }
    return Array(tokens[Int(index)..<(Int(index) + count)].joined())
  }
}

extension JournalState {
  /// Reads a record as the reading of a journal does.
  mutating func read(_ position: UInt64, kind: UInt8, _ bytes: [UInt8]) throws {
    try unsafe withExactBytes(bytes) { memory in
      try read(JournalPosition(rawValue: position), kind: kind, unsafe Span(_unsafeBytes: memory))
    }
  }
}

extension RecoveredRun {
  var notifications: [TestNotification] {
    var found: [TestNotification] = []
    forEach { found.append(TestNotification($0)) }
    return found
  }
}

extension EnqueueContent {
  var notifications: [TestNotification] {
    var found: [TestNotification] = []
    var cursor = Cursor()
    walk(&cursor) { notification in
      found.append(TestNotification(notification))
      return true
    }
    return found
  }
}

// MARK: - Random values

extension SeededGenerator {
  mutating func pick<Value>(_ values: [Value], or fallback: Value) -> Value {
    values.randomElement(using: &self) ?? fallback
  }

  /// A small, a large or any number, at most `limit`.
  mutating func number(_ limit: UInt64) -> UInt64 {
    switch Int.random(in: 0..<4, using: &self) {
    case 0: limit
    case 1: UInt64.random(in: 0...min(limit, 300), using: &self)
    case 2: UInt64.random(in: 0...limit, using: &self) >> UInt64.random(in: 0...60, using: &self)
    default: UInt64.random(in: 0...limit, using: &self)
    }
  }

  mutating func count(_ limit: UInt64 = 1 << 48) -> Int { Int(number(limit)) }

  mutating func text() -> String {
    pick(["", "a", "com.example.app", "Jürgen's \u{1F514}", String(repeating: "x", count: 300)], or: "")
  }

  mutating func ringRange() -> Range<UInt64> {
    let (first, second) = (number((1 << 62) - 1), number((1 << 62) - 1))
    return min(first, second)..<max(first, second)
  }

  mutating func run() -> JournalledRun {
    JournalledRun(lane: number(.max), range: ringRange(), campaign: number(.max), count: count(UInt64(UInt32.max)))
  }

  mutating func outcome() -> Outcome {
    pick(
      [
        .accepted(.confirmed), .accepted(.quiet), .suppressed, .capped, .holdout, .expired, .held, .cancelled,
        .unknown, .rejected(.closedWithoutReason),
        .rejected(.provider(ProviderRefusal(status: 400, reason: nil, otherReason: "Überlast"))),
        .rejected(.provider(ProviderRefusal(status: 451, reason: nil, otherReason: String(repeating: "過", count: 64)))),
        .rejected(.gaveUp(ProviderRefusal(status: 503, reason: nil, otherReason: "Overload"))),
        .rejected(.streamRefused), .rejected(.malformedToken), .rejected(.payloadTooLarge),
        .rejected(.status(GatewayStatus(rawValue: UInt8.random(in: 0...255, using: &self)))),
        .rejected(.unusableLine(pick(LineDefect.allCases, or: .row))),
        .rejected(
          .provider(
            ProviderRefusal(
              status: UInt16.random(in: 100...999, using: &self),
              reason: ProviderReason.allCases.randomElement(using: &self)))),
        .rejected(
          .gaveUp(
            ProviderRefusal(
              status: UInt16.random(in: 100...999, using: &self),
              reason: ProviderReason.allCases.randomElement(using: &self)))),
      ], or: .unknown)
  }

  mutating func account() -> Account {
    var account = Account()
    account.submitted = count()
    for _ in 0..<Int.random(in: 0...12, using: &self) { account.count(outcome(), count(1 << 40)) }
    account.resent = count()
    account.possibleDuplicates = count()
    account.possibleCopies = count()
    return account
  }

  mutating func audiencePosition() -> AudiencePosition {
    var position = AudiencePosition(
      mark: AudienceMark(offset: number((1 << 62) - 1), line: number((1 << 62) - 1)), readLine: number((1 << 62) - 1),
      submitted: count(),
      rejected: Dictionary(
        uniqueKeysWithValues: Rejection.atIntake.filter { _ in chance(30) }.map {
          ($0, 1 + count(UInt64(UInt32.max - 1)))
        }))
    if chance(30) { position.withheld.suppressed = 1 + count(UInt64(UInt32.max - 1)) }
    if chance(30) { position.withheld.capped = count(UInt64(UInt32.max)) }
    if chance(30) { position.withheld.holdout = count(UInt64(UInt32.max)) }
    return position
  }

  mutating func campaign() -> JournalledCampaign {
    var campaign = JournalledCampaign(
      number: number(.max), group: number(.max), groupCount: count(UInt64(UInt32.max)), app: text(),
      payload: number(.max),
      expiration: chance(50) ? UInt32(number(UInt64(UInt32.max))) : nil,
      priority: chance(50) ? UInt8.random(in: 1...255, using: &self) : nil,
      context: bytes(Int.random(in: 0...200, using: &self)))
    campaign.phase = chance(50) ? .open : .ended
    campaign.seed = IdentifierSeed(high: next(), low: next())
    if chance(50) {
      var headers = ProviderHeaders(topic: chance(50) ? text() : nil, pushType: pick(PushType.allCases, or: .alert))
      if chance(50) { headers.collapseIdentifier = text() }
      if chance(20) { headers.channelIdentifier = text() }
      campaign.headers = headers
    }
    campaign.account = account()
    campaign.mark = AudienceMark(offset: number((1 << 62) - 1), line: number((1 << 62) - 1))
    campaign.readLine = number((1 << 62) - 1)
    return campaign
  }

  mutating func event() -> JournalEvent {
    switch Int.random(in: 0..<13, using: &self) {
    case 0: .laneBegan(lane: number(.max), app: text())
    case 1: .intent(lane: number(.max), through: number(.max))
    case 2: .settled(run(), outcome())
    case 3: .returned(run(), isInDoubt: chance(50))
    case 4: .doubted(run(), copies: count(UInt64(UInt32.max)))
    case 5: .resolved(run(), outcome())
    case 6: .resent(campaign: number(.max), count: count(UInt64(UInt32.max)))
    case 7: .position(campaign: number(.max), audiencePosition())
    case 8: .numbersTaken(below: number(.max))
    case 9: .answered(run(), outcome())
    case 10: .withdrawn(run(), isInDoubt: chance(50))
    case 11: .rewound(lane: number(.max), to: number(.max))
    default: .ended(campaign: number(.max))
    }
  }

  mutating func header(_ run: JournalledRun) -> EnqueueHeader {
    var header = EnqueueHeader(run: run, position: chance(50) ? audiencePosition() : nil)
    if chance(50) {
      header.source = EnqueueHeader.Source(
        lane: number(.max), range: ringRange(), newlyDoubted: count(UInt64(UInt32.max)))
    }
    header.isInDoubt = chance(50)
    header.isRewritten = chance(50)
    return header
  }

  /// 1…40 lines that are nothing but a token.
  mutating func tokenLines() -> TokenLines {
    let count = Int.random(in: 1...40, using: &self)
    let byteCount = UInt64(count * AudienceReader.bareLineByteCount)
    return TokenLines(
      offset: number((1 << 62) - 1 - byteCount), firstLine: number(.max), tokens: (0..<count).map { _ in bytes(32) })
  }

  /// 1…40 notifications of all kinds.
  mutating func notifications() -> [TestNotification] {
    let (tokensAreUniform, linesFollow, payloadPercent) = (chance(50), chance(50), pick([0, 0, 30, 100], or: 0))
    let headersPercent = pick([0, 0, 30, 100], or: 0)
    var line = number(.max)
    return (0..<Int.random(in: 1...40, using: &self)).map { _ in
      line = linesFollow ? line &+ 1 : number(.max)
      let tokenByteCount =
        tokensAreUniform ? 32 : pick([1, 31, 32, 33, 99, 100, Int.random(in: 1...100, using: &self)], or: 32)
      let payloadByteCount = chance(payloadPercent) ? pick([1, 31, 32, 33, 255, 256, 2048, 5120], or: 1) : 0
      var notification = TestNotification(line: line, token: bytes(tokenByteCount), payload: bytes(payloadByteCount))
      if chance(headersPercent) { notification.identifier = APNSIdentifier(high: next(), low: next()) }
      if chance(headersPercent) {
        notification.collapse = bytes(pick([1, 63, 64, Int.random(in: 1...64, using: &self)], or: 1))
      }
      // Beside a longer collapse identifier there is no room for it.
      if notification.collapse.count <= 62, chance(headersPercent) {
        notification.expiration = UInt32(truncatingIfNeeded: next())
      }
      return notification
    }
  }
}
