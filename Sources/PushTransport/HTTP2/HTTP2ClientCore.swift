internal import CNGHTTP2
internal import PushWire

/// The state of a client session for its callbacks. nghttp2 passes them its address.
@safe
struct HTTP2ClientCore: HTTP2Core {
  let output: HTTP2Output
  var outputLimit = 0
  var streams = HTTP2ClientStreams()
  /// Streams that have ended for the caller, but that nghttp2 has not closed yet.
  var abandonedCount = 0
  let limits: HTTP2Limits

  var events: [HTTP2ClientEvent] = []
  var nextEvent = 0
  /// The body of the event that was taken last.
  var lentBody: UnsafeMutableRawPointer?
  /// Buffers for bodies, each of `limits.bodyByteCount`.
  var freeBodies: [UnsafeMutableRawPointer] = unsafe []
  var replies: [Int32: HTTP2Reply] = [:]

  var current: UnsafeMutablePointer<HTTP2ClientStream>?
  var hasSettings = false
  var areSettingsTold = true
  var goAway: HTTP2GoAway?
  var isGoAwayReported = true
  /// The ping without an answer.
  var ping: UInt64?
  var failure: HTTP2Failure?
  /// We are closing the session, so its GOAWAY is not a failure.
  var isClosing = false

  init(limits: HTTP2Limits, output: HTTP2Output) {
    (self.limits, self.output) = (limits, output)
    events.reserveCapacity(4)
  }

  mutating func deallocate() {
    unsafe streams.forEachInUse { stream in
      unsafe stream.pointee.template?.release()
      unsafe stream.pointee.receivedBody?.deallocate()
    }
    for index in nextEvent..<events.count {
      if case .response(let response) = events[index] {
        unsafe response.body.baseAddress.map { unsafe UnsafeMutableRawPointer(mutating: $0) }?.deallocate()
      }
    }
    unsafe lentBody?.deallocate()
    unsafe freeBodies.forEach { unsafe $0.deallocate() }
    streams.deallocate()
  }

  // MARK: Input

  mutating func reportGoAway() { events.append(.goAway) }

  mutating func headersBegan(_ stream: UnsafeMutablePointer<HTTP2ClientStream>) {
    unsafe current = unsafe stream
    unsafe stream.pointee.headerCount = 0
    unsafe stream.pointee.headerByteCount = 0
  }

  mutating func field(
    _ stream: UnsafeMutablePointer<HTTP2ClientStream>, name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer
  ) -> Bool {
    unsafe stream.pointee.headerCount += 1
    unsafe stream.pointee.headerByteCount += Int32(clamping: name.count + value.count + 32)
    guard unsafe stream.pointee.headerCount <= limits.headerCount,
      unsafe stream.pointee.headerByteCount <= limits.headerByteCount
    else { return false }
    // Trailers contain nothing that is used.
    guard unsafe !stream.pointee.hasFinalHeaders else { return true }
    switch name.count {
    case 7 where unsafe HTTP2Text.equal(name, ":status"):
      unsafe stream.pointee.status = unsafe HTTP2Text.number(value).flatMap { UInt16(exactly: $0) } ?? 0
      return true
    case 7 where unsafe HTTP2Text.equal(name, "apns-id"):
      unsafe stream.pointee.apnsID = unsafe APNSIdentifier(parsing: value)
    case 14 where unsafe HTTP2Text.equal(name, "apns-unique-id"):
      unsafe stream.pointee.uniqueID = unsafe APNSIdentifier(parsing: value)
    case 11 where unsafe HTTP2Text.equal(name, "retry-after"):
      unsafe stream.pointee.retryAfter = unsafe HTTP2Text.number(value).flatMap { UInt32(exactly: $0) }
    // The service's clock is needed only for refusals. Parsing a date costs more than the rest of a
    // successful response.
    case 4 where unsafe stream.pointee.status >= 400 && HTTP2Text.equal(name, "date"):
      unsafe stream.pointee.date = unsafe HTTPDate.parse(value)
    default: break
    }
    if unsafe stream.pointee.keepsEverything {
      unsafe replies[stream.pointee.streamID, default: HTTP2Reply(status: 0, fields: [], body: [])].fields.append(
        (String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self)))
    }
    return true
  }

  /// A header block is complete.
  mutating func headersEnded(_ stream: UnsafeMutablePointer<HTTP2ClientStream>) {
    unsafe current = nil
    guard unsafe !stream.pointee.hasFinalHeaders else { return }
    // 1xx: the final headers are still to come.
    if unsafe (100..<200).contains(stream.pointee.status) {
      unsafe stream.pointee.status = 0
      if unsafe stream.pointee.keepsEverything { unsafe replies[stream.pointee.streamID] = nil }
    } else {
      unsafe stream.pointee.hasFinalHeaders = true
    }
  }

  mutating func received(_ stream: UnsafeMutablePointer<HTTP2ClientStream>, _ bytes: UnsafeRawBufferPointer) {
    guard unsafe !stream.pointee.isAnswered else { return }
    if unsafe stream.pointee.keepsEverything { return unsafe keep(stream, bytes) }
    let room = unsafe limits.bodyByteCount - stream.pointee.receivedByteCount
    let taken = min(room, bytes.count)
    if taken < bytes.count { unsafe stream.pointee.isBodyCut = true }
    guard taken > 0, let source = bytes.baseAddress else { return }
    let body =
      unsafe stream.pointee.receivedBody ?? freeBodies.popLast()
      ?? .allocate(byteCount: limits.bodyByteCount, alignment: 16)
    unsafe stream.pointee.receivedBody = unsafe body
    unsafe (body + stream.pointee.receivedByteCount).copyMemory(from: source, byteCount: taken)
    unsafe stream.pointee.receivedByteCount += taken
  }

  /// The limit for replies that are kept as a whole.
  private static let replyByteCountLimit = 4 * 1024 * 1024

  private mutating func keep(_ stream: UnsafeMutablePointer<HTTP2ClientStream>, _ bytes: UnsafeRawBufferPointer) {
    let streamID = unsafe stream.pointee.streamID
    let room = Self.replyByteCountLimit - (replies[streamID]?.body.count ?? 0)
    if room < bytes.count { unsafe stream.pointee.isBodyCut = true }
    unsafe replies[streamID, default: HTTP2Reply(status: 0, fields: [], body: [])].body.append(
      contentsOf: bytes.prefix(room))
  }

  /// The peer has sent everything on this stream.
  mutating func answered(_ stream: UnsafeMutablePointer<HTTP2ClientStream>) {
    guard unsafe !stream.pointee.isAnswered, unsafe stream.pointee.hasFinalHeaders else { return }
    unsafe stream.pointee.isAnswered = true
    let body = unsafe stream.pointee.receivedBody
    unsafe stream.pointee.receivedBody = nil
    if unsafe stream.pointee.keepsEverything {
      unsafe replies[stream.pointee.streamID, default: HTTP2Reply(status: 0, fields: [], body: [])].status =
        stream.pointee.status
    }
    unsafe events.append(
      .response(
        HTTP2Response(
          streamID: stream.pointee.streamID, tag: stream.pointee.tag, status: stream.pointee.status,
          apnsID: stream.pointee.apnsID,
          uniqueID: stream.pointee.uniqueID, retryAfter: stream.pointee.retryAfter, date: stream.pointee.date,
          body: UnsafeRawBufferPointer(start: body, count: body == nil ? 0 : stream.pointee.receivedByteCount),
          isBodyCut: stream.pointee.isBodyCut)))
  }

  /// nghttp2 has closed the stream.
  mutating func closed(_ stream: UnsafeMutablePointer<HTTP2ClientStream>, _ errorCode: UInt32) {
    if unsafe current == stream { unsafe current = nil }
    if unsafe !stream.pointee.isAnswered {
      if unsafe stream.pointee.keepsEverything { unsafe replies[stream.pointee.streamID] = nil }
      let code = HTTP2ErrorCode(rawValue: errorCode)
      let isUnprocessed = unsafe code == .refusedStream || !stream.pointee.isSent
      unsafe events.append(
        .ended(
          HTTP2StreamEnd(
            streamID: stream.pointee.streamID, tag: stream.pointee.tag, errorCode: code, isUnprocessed: isUnprocessed,
            status: stream.pointee.status)))
    }
    unsafe release(stream)
  }

  /// A pong without a ping is ignored: a peer could send any number of them.
  mutating func pongArrived(_ data: (UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8)) {
    let number = unsafe withUnsafeBytes(of: data) { unsafe UInt64(bigEndian: $0.loadUnaligned(as: UInt64.self)) }
    guard number == ping else { return }
    ping = nil
    events.append(.pong(number))
  }

  private static let freeBodyLimit = 64

  mutating func giveBack(_ body: UnsafeMutableRawPointer) {
    if unsafe freeBodies.count < Self.freeBodyLimit { unsafe freeBodies.append(body) } else { unsafe body.deallocate() }
  }

  /// After a GOAWAY of the peer, requests that were not output are never sent.
  mutating func abandonUnsent() {
    var abandoned: [HTTP2StreamEnd] = []
    unsafe streams.forEachInUse { stream in
      guard unsafe !stream.pointee.isSent, unsafe !stream.pointee.isAnswered else { return }
      unsafe stream.pointee.isAnswered = true
      unsafe stream.pointee.isAbandoned = true
      unsafe abandoned.append(
        HTTP2StreamEnd(
          streamID: stream.pointee.streamID, tag: stream.pointee.tag, errorCode: .refusedStream, isUnprocessed: true,
          status: 0))
    }
    abandonedCount += abandoned.count
    events.append(contentsOf: abandoned.map(HTTP2ClientEvent.ended))
  }

  mutating func release(_ stream: UnsafeMutablePointer<HTTP2ClientStream>) {
    if unsafe stream.pointee.isAbandoned { abandonedCount -= 1 }
    if let body = unsafe stream.pointee.receivedBody { unsafe giveBack(body) }
    unsafe stream.pointee.template?.release()
    unsafe streams.give(stream)
  }
}

/// Comparisons of the raw bytes of header fields.
enum HTTP2Text {
  @inline(__always)
  static func equal(_ bytes: UnsafeRawBufferPointer, _ text: StaticString) -> Bool {
    guard bytes.count == text.utf8CodeUnitCount, let base = bytes.baseAddress else { return false }
    return unsafe carillon_bytes_equal(base, text.utf8Start, bytes.count) != 0
  }

  /// A number of up to nine digits and nothing else.
  static func number(_ bytes: UnsafeRawBufferPointer) -> Int? {
    guard (1...9).contains(bytes.count) else { return nil }
    var value = 0
    for index in 0..<bytes.count {
      let digit = unsafe bytes[index] &- 0x30
      guard digit < 10 else { return nil }
      value = value * 10 + Int(digit)
    }
    return value
  }
}
