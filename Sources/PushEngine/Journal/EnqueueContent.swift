internal import PushTransport
internal import PushWire

/// One notification of an enqueue record, wherever its bytes lie.
@safe struct EnqueuedNotification {
  let line: UInt64
  /// 1…100 bytes.
  let token: UnsafeRawBufferPointer
  /// The kinds of its own headers; 0 for most. Separate from their bytes, because a call into
  /// another module for each notification has a measurable cost.
  let headersCode: UInt8
  private let headersStart: UnsafeRawPointer?
  /// Empty if it has the campaign's payload.
  let payload: UnsafeRawBufferPointer

  init(
    line: UInt64, token: UnsafeRawBufferPointer, headersCode: UInt8, headersStart: UnsafeRawPointer?,
    payload: UnsafeRawBufferPointer
  ) {
    self.line = line
    unsafe self.token = unsafe token
    self.headersCode = headersCode
    unsafe self.headersStart = unsafe headersStart
    unsafe self.payload = unsafe payload
  }

  var headers: RingRecord.OwnHeaders { unsafe RingRecord.OwnHeaders(code: headersCode, start: headersStart) }
  var headersByteCount: Int { headersCode == 0 ? 0 : RingRecord.OwnHeaders.byteCount(headersCode) }

  /// The blocks it takes in a ring.
  @inline(__always)
  var blockCount: UInt64 {
    let (tokenByteCount, otherByteCount) = unsafe (token.count, headersByteCount &+ payload.count)
    // The usual case: it fits one block beside its header.
    if tokenByteCount &+ otherByteCount <= 32 { return 1 }
    return UInt64(RingRecord.blockCount(tokenByteCount: tokenByteCount, payloadByteCount: otherByteCount))
  }
}

/// A source that can go through the same notifications, in the same order, any number of times:
/// once for each column of a record.
protocol EnqueueSource {
  /// Their tokens, if all have 32 bytes and follow each other in memory.
  var plainTokens: UnsafeRawBufferPointer? { get }
  func forEach(_ body: (EnqueuedNotification) -> Void)
}

extension EnqueueSource { var plainTokens: UnsafeRawBufferPointer? { nil } }

/// The size of a set of notifications in a record. Computed before anything is written.
struct EnqueueShape {
  fileprivate enum Flag {
    static let linesFollow: UInt8 = 1
    static let uniformTokens: UInt8 = 2
    static let payloads: UInt8 = 4
    static let headers: UInt8 = 8
    static let tokensInFile: UInt8 = 16
  }

  private(set) var count = 0
  private(set) var blockCount: UInt64 = 0
  fileprivate var flags = Flag.linesFollow | Flag.uniformTokens
  private var firstLine: UInt64 = 0
  private var lastLine: UInt64 = 0
  private var fileOffset: UInt64?
  private var tokenByteCount = 0
  private var payloadByteCount = 0
  private var headersByteCount = 0

  init() {}

  /// Notifications with a token of 32 bytes and nothing of their own.
  ///
  /// - Parameter fileOffset: Of the first one's line; see ``AudienceChunk/fileOffset``. The record
  ///   has it in place of the tokens. Nil: it has the tokens.
  init(plainCount: Int, firstLine: UInt64, linesFollow: Bool, fileOffset: UInt64?) {
    (count, blockCount, tokenByteCount) = (plainCount, UInt64(plainCount), 32 * plainCount)
    self.firstLine = firstLine
    if !linesFollow { flags &= ~Flag.linesFollow }
    guard linesFollow, plainCount <= Self.countInFileLimit, let fileOffset else { return }
    self.fileOffset = fileOffset
    flags |= Flag.tokensInFile
  }

  /// The most notifications of a record without tokens, whose length does not bound them: a reader
  /// needs memory for each.
  fileprivate static let countInFileLimit = 1 << 16

  mutating func add(_ notification: EnqueuedNotification) { add(notification, blockCount: notification.blockCount) }

  /// - Parameter own: the notification's ``EnqueuedNotification/blockCount``.
  @inline(__always)
  mutating func add(_ notification: EnqueuedNotification, blockCount own: UInt64) {
    if count == 0 {
      firstLine = notification.line
    } else if notification.line != lastLine &+ 1 {
      flags &= ~Flag.linesFollow
    }
    lastLine = notification.line
    count &+= 1
    blockCount &+= own
    let (tokenBytes, payloadBytes) = unsafe (notification.token.count, notification.payload.count)
    if tokenBytes != 32 { flags &= ~Flag.uniformTokens }
    if payloadBytes > 0 { flags |= Flag.payloads }
    if notification.headersCode != 0 {
      flags |= Flag.headers
      headersByteCount += notification.headersByteCount
    }
    tokenByteCount &+= tokenBytes
    payloadByteCount &+= payloadBytes
  }

  /// Bytes after the header of the record.
  var byteCount: Int {
    guard fileOffset == nil else { return Self.inFileByteCount }
    let lines = flags & Flag.linesFollow == 0 ? 8 * count : 8
    let lengths = flags & Flag.uniformTokens == 0 ? count : 0
    let payloads = flags & Flag.payloads == 0 ? 0 : 2 * count + payloadByteCount
    let headers = flags & Flag.headers == 0 ? 0 : count + headersByteCount
    return 1 + lines + lengths + tokenByteCount + headers + payloads
  }

  /// The part of ``byteCount`` that does not depend on the number of notifications.
  static let fixedByteCount = 1 + 8
  /// The value of ``byteCount`` without tokens.
  fileprivate static let inFileByteCount = 1 + 8 + 8

  /// The most that one notification adds to ``byteCount``, including its effect on the columns of
  /// the others.
  static func byteCountLimit(of notification: EnqueuedNotification) -> Int {
    unsafe ownByteCountLimit &+ notification.token.count &+ notification.headersByteCount &+ notification.payload.count
  }

  /// The same of a notification with a token of 32 bytes and nothing of its own.
  static let plainByteCountLimit = ownByteCountLimit + 32
  private static let ownByteCountLimit = 8 + 1 + 1 + 2

  /// Writes the columns.
  func write(_ source: some EnqueueSource, to record: inout RecordWriter) {
    record.write(flags)
    if flags & Flag.linesFollow == 0 { source.forEach { record.write($0.line) } } else { record.write(firstLine) }
    if let fileOffset { return record.write(fileOffset) }
    if flags & Flag.uniformTokens == 0 {
      source.forEach { record.write(UInt8(truncatingIfNeeded: unsafe $0.token.count)) }
    }
    if let tokens = unsafe source.plainTokens {
      unsafe record.write(raw: tokens)
    } else {
      source.forEach { unsafe record.write(raw: $0.token) }
    }
    if flags & Flag.headers != 0 {
      source.forEach { record.write($0.headersCode) }
      source.forEach { unsafe record.write(raw: $0.headers.bytes) }
    }
    guard flags & Flag.payloads != 0 else { return }
    source.forEach { record.write(UInt16(truncatingIfNeeded: unsafe $0.payload.count)) }
    source.forEach { unsafe record.write(raw: $0.payload) }
  }
}

/// Returns the tokens of this many lines of a token file, the first of which begins at
/// `fileOffset`: 32 bytes each.
package typealias TokenReading = (_ fileOffset: UInt64, _ count: Int) throws(AudienceError) -> [UInt8]

/// The notifications of an enqueue record that was read from the journal. The columns are kept as
/// they are.
struct EnqueueContent: Hashable, Sendable {
  let bytes: [UInt8]
  private let count: Int
  private let flags: UInt8
  private let lengthsOffset: Int
  private let tokensOffset: Int
  private let headerLengthsOffset: Int
  private let headersOffset: Int
  private let payloadLengthsOffset: Int
  private let payloadsOffset: Int

  /// Reads the rest of a record.
  ///
  /// - Throws: unless it holds exactly `run`'s notifications, in as many blocks as `run` has.
  init(reading record: inout RecordReader, run: JournalledRun) throws(RecordError) {
    count = run.count
    bytes = Array(try record.readRaw(record.remaining))
    guard let first = bytes.first, count > 0 else { throw .tooShort }
    flags = first
    guard flags & EnqueueShape.Flag.tokensInFile == 0 else {
      let expected = EnqueueShape.Flag.tokensInFile | EnqueueShape.Flag.linesFollow | EnqueueShape.Flag.uniformTokens
      guard flags == expected, bytes.count == EnqueueShape.inFileByteCount, count <= EnqueueShape.countInFileLimit,
        run.range.count == count
      else { throw .outOfRange }
      let byteCount = UInt64(count * AudienceReader.bareLineByteCount)
      guard Self.number(in: bytes, at: Self.fileOffsetPlace) < (1 << 62) - byteCount else { throw .outOfRange }
      (lengthsOffset, tokensOffset, headerLengthsOffset) = (bytes.count, bytes.count, bytes.count)
      (headersOffset, payloadLengthsOffset, payloadsOffset) = (bytes.count, bytes.count, bytes.count)
      return
    }
    lengthsOffset = 1 + (flags & EnqueueShape.Flag.linesFollow == 0 ? 8 * count : 8)
    let tokensAreUniform = flags & EnqueueShape.Flag.uniformTokens != 0
    tokensOffset = lengthsOffset + (tokensAreUniform ? 0 : count)
    let hasPayloads = flags & EnqueueShape.Flag.payloads != 0
    guard tokensOffset <= bytes.count else { throw .tooShort }
    let tokenByteCount = tokensAreUniform ? 32 * count : bytes[lengthsOffset..<tokensOffset].reduce(0) { $0 + Int($1) }
    let hasHeaders = flags & EnqueueShape.Flag.headers != 0
    headerLengthsOffset = tokensOffset + tokenByteCount
    headersOffset = headerLengthsOffset + (hasHeaders ? count : 0)
    guard headersOffset <= bytes.count else { throw .tooShort }
    payloadLengthsOffset =
      headersOffset + bytes[headerLengthsOffset..<headersOffset].reduce(0) { $0 + RingRecord.OwnHeaders.byteCount($1) }
    payloadsOffset = payloadLengthsOffset + (hasPayloads ? 2 * count : 0)
    guard payloadsOffset <= bytes.count else { throw .tooShort }
    if tokensAreUniform, !hasHeaders, !hasPayloads {
      guard bytes.count == payloadsOffset, run.range.count == count else { throw .outOfRange }
      return
    }
    var payloadEnd = payloadsOffset
    var blockCount: UInt64 = 0
    for index in 0..<count {
      let (token, headers, payload) = lengths(of: index)
      guard (1...100).contains(token), payload <= 5120 else { throw .outOfRange }
      payloadEnd += payload
      blockCount += UInt64(
        RingRecord.blockCount(
          tokenByteCount: token, payloadByteCount: RingRecord.OwnHeaders.byteCount(headers) + payload))
    }
    guard payloadEnd == bytes.count, blockCount == run.range.upperBound - run.range.lowerBound else {
      throw .outOfRange
    }
  }

  /// The content of a record that is about to be written.
  init?(_ source: some EnqueueSource, shape: EnqueueShape, run: JournalledRun) {
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: shape.byteCount) { memory, count in
      var record = unsafe RecordWriter(UnsafeMutableRawBufferPointer(memory))
      shape.write(source, to: &record)
      count = record.byteCount
    }
    var record = RecordReader(bytes.span)
    guard let content = try? EnqueueContent(reading: &record, run: run) else { return nil }
    self = content
  }

  private func lengths(of index: Int) -> (token: Int, headers: UInt8, payload: Int) {
    if lacksTokens { return (0, 0, 0) }
    let token = flags & EnqueueShape.Flag.uniformTokens == 0 ? Int(bytes[lengthsOffset + index]) : 32
    let headers = flags & EnqueueShape.Flag.headers == 0 ? 0 : bytes[headerLengthsOffset + index]
    guard flags & EnqueueShape.Flag.payloads != 0 else { return (token, headers, 0) }
    let offset = payloadLengthsOffset + 2 * index
    return (token, headers, Int(bytes[offset]) | Int(bytes[offset + 1]) << 8)
  }

  private func line(of index: Int) -> UInt64 {
    let follows = flags & EnqueueShape.Flag.linesFollow != 0
    let stored = Self.number(in: bytes, at: Self.linesPlace + (follows ? 0 : 8 * index))
    return follows ? stored &+ UInt64(index) : stored
  }

  private static let linesPlace = 1
  private static let fileOffsetPlace = 9

  private static func number(in bytes: [UInt8], at place: Int) -> UInt64 {
    bytes[place..<(place + 8)].reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  // MARK: Tokens that lie in a file

  /// It has no tokens, but says where they lie in the campaign's token file.
  var lacksTokens: Bool { flags & EnqueueShape.Flag.tokensInFile != 0 }

  /// The line of the notification at `cursor`, and where it begins in the token file; nil if the
  /// tokens are here.
  func placeInFile(_ cursor: Cursor) -> (line: UInt64, offset: UInt64)? {
    guard lacksTokens else { return nil }
    let offset = Self.number(in: bytes, at: Self.fileOffsetPlace)
    return (line(of: cursor.index), offset + UInt64(cursor.index * AudienceReader.bareLineByteCount))
  }

  /// The same with its tokens.
  func withTokens(_ read: TokenReading) throws(AudienceError) -> EnqueueContent {
    guard let place = placeInFile(Cursor()) else { return self }
    return EnqueueContent(self, tokens: try read(place.offset, count))
  }

  /// - Parameter tokens: 32 bytes for each of its notifications.
  private init(_ content: EnqueueContent, tokens: [UInt8]) {
    precondition(tokens.count == content.count * TokenBytes.usualByteCount, "not a token for each notification")
    count = content.count
    flags = EnqueueShape.Flag.linesFollow | EnqueueShape.Flag.uniformTokens
    bytes = [flags] + content.bytes[Self.linesPlace..<Self.fileOffsetPlace] + tokens
    // The tokens take the place of the offset.
    (lengthsOffset, tokensOffset) = (Self.fileOffsetPlace, Self.fileOffsetPlace)
    headerLengthsOffset = bytes.count
    (headersOffset, payloadLengthsOffset, payloadsOffset) = (bytes.count, bytes.count, bytes.count)
  }

  // MARK: Each of them

  /// Goes through the notifications from `cursor` on, until `body` returns false. Then the cursor
  /// stays before that notification. If it lacks tokens, each of them has an empty one.
  func walk(_ cursor: inout Cursor, _ body: (EnqueuedNotification) -> Bool) {
    unsafe bytes.withUnsafeBytes { raw in
      while cursor.index < count {
        let (token, headers, payload) = lengths(of: cursor.index)
        let (tokenStart, payloadStart) = (tokensOffset + cursor.tokenOffset, payloadsOffset + cursor.payloadOffset)
        let notification = unsafe EnqueuedNotification(
          line: line(of: cursor.index), token: UnsafeRawBufferPointer(rebasing: raw[tokenStart..<(tokenStart + token)]),
          headersCode: headers, headersStart: raw.baseAddress.map { unsafe $0 + headersOffset + cursor.headersOffset },
          payload: UnsafeRawBufferPointer(rebasing: raw[payloadStart..<(payloadStart + payload)]))
        guard body(notification) else { return }
        cursor.index += 1
        cursor.tokenOffset += token
        cursor.headersOffset += RingRecord.OwnHeaders.byteCount(headers)
        cursor.payloadOffset += payload
        cursor.blockOffset += notification.blockCount
      }
    }
  }

  /// A place between two notifications of one content.
  struct Cursor: Hashable, Sendable {
    fileprivate(set) var index = 0
    fileprivate var tokenOffset = 0
    fileprivate var headersOffset = 0
    fileprivate var payloadOffset = 0
    /// The distance from the beginning of the run, in blocks of the ring.
    fileprivate(set) var blockOffset: UInt64 = 0
  }
}
