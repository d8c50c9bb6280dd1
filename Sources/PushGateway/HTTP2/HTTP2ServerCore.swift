internal import CNGHTTP2
internal import PushTransport

/// The state of a server session for its callbacks. nghttp2 passes them its address.
@safe
struct HTTP2ServerCore {
  let limits: HTTP2Limits
  let output: HTTP2Output
  /// The output ends with the first frame that reaches it.
  var outputLimit = 0
  var events: [Event] = []
  var nextEvent = 0
  /// The request of the event that was taken last.
  var lent: UnsafeMutablePointer<HTTP2ServerStream>?
  /// The stream whose header block is being read.
  var current: UnsafeMutablePointer<HTTP2ServerStream>?
  var openCount = 0
  /// The last GOAWAY of the client.
  var goAway: HTTP2GoAway?
  /// The caller has taken the event of the last GOAWAY.
  var isGoAwayReported = true
  var failure: HTTP2Failure?
  /// GOAWAYs of ours that were not output yet. Others come from nghttp2, about a peer that breaks
  /// the rules.
  var ownGoAways = 0

  /// Announced limits that are not acknowledged, oldest first; nil for SETTINGS without a limit.
  var announced: [UInt32?] = []
  /// The last limit that the client has acknowledged; nil: none yet, so there is no limit.
  var acknowledgedLimit: UInt32?
  /// The largest limit that the client may still use.
  var enforcedLimit: UInt32? { announced.reduce(acknowledgedLimit ?? .max) { max($0, $1 ?? 0) } }

  @safe
  enum Event {
    case request(UnsafeMutablePointer<HTTP2ServerStream>)
    case plain(HTTP2ServerEvent)
  }

  private var chunks: [UnsafeMutablePointer<HTTP2ServerStream>] = unsafe []
  private var free: UnsafeMutablePointer<HTTP2ServerStream>?
  private static let chunkCount = 64

  init(limits: HTTP2Limits, output: HTTP2Output) {
    (self.limits, self.output) = (limits, output)
    events.reserveCapacity(16)
  }

  /// Frees everything that it owns. The nghttp2 session must be deleted before.
  mutating func deallocate() {
    for number in unsafe chunks.indices {
      let chunk = unsafe chunks[number]
      for index in 0..<Self.chunkCount { unsafe chunk[index].deallocate() }
      unsafe chunk.deallocate()
    }
  }

  // MARK: Streams

  mutating func reportGoAway() { events.append(.plain(.goAway)) }

  mutating func take(_ streamID: Int32) -> UnsafeMutablePointer<HTTP2ServerStream> {
    if unsafe free == nil {
      let chunk = UnsafeMutablePointer<HTTP2ServerStream>.allocate(capacity: Self.chunkCount)
      unsafe chunk.initialize(repeating: HTTP2ServerStream(), count: Self.chunkCount)
      for index in (0..<Self.chunkCount).reversed() {
        unsafe chunk[index].nextFree = unsafe free
        unsafe free = unsafe chunk + index
      }
      unsafe chunks.append(chunk)
    }
    guard let stream = unsafe free else { preconditionFailure("a chunk of streams without streams") }
    unsafe free = unsafe stream.pointee.nextFree
    unsafe stream.pointee.clear()
    unsafe stream.pointee.isInUse = true
    unsafe stream.pointee.streamID = streamID
    return unsafe stream
  }

  /// Frees a stream when neither nghttp2 nor an event refers to it.
  private mutating func giveIfUnused(_ stream: UnsafeMutablePointer<HTTP2ServerStream>) {
    guard unsafe stream.pointee.isClosed, unsafe !stream.pointee.isReported, unsafe stream.pointee.isInUse
    else { return }
    unsafe stream.pointee.isInUse = false
    unsafe stream.pointee.nextFree = unsafe free
    unsafe free = unsafe stream
  }

  // MARK: Input

  mutating func began(_ stream: UnsafeMutablePointer<HTTP2ServerStream>) {
    unsafe current = unsafe stream
    openCount += 1
    if let limit = enforcedLimit, openCount > Int(limit) {
      unsafe events.append(
        .plain(.streamLimitExceeded(streamID: stream.pointee.streamID, openCount: openCount, limit: Int(limit))))
    }
  }

  /// False: the block is larger than any valid one.
  mutating func field(
    _ stream: UnsafeMutablePointer<HTTP2ServerStream>, name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer
  ) -> Bool {
    // Trailers are ignored.
    guard unsafe !stream.pointee.hasHeaders else { return true }
    unsafe stream.pointee.headerByteCount += name.count + value.count + 32
    guard unsafe stream.pointee.headerByteCount <= limits.headerByteCount,
      unsafe stream.pointee.fieldCount < limits.headerCount
    else { return false }
    let fields = unsafe stream.pointee.fields ?? .allocate(capacity: limits.headerCount)
    unsafe stream.pointee.fields = unsafe fields
    unsafe (fields + stream.pointee.fieldCount).initialize(
      to: HTTP2FieldRange(
        start: Int32(stream.pointee.text.count), nameCount: Int32(name.count), valueCount: Int32(value.count)))
    unsafe stream.pointee.fieldCount += 1
    unsafe stream.pointee.text.append(name)
    unsafe stream.pointee.text.append(value)
    return true
  }

  mutating func headersEnded(_ stream: UnsafeMutablePointer<HTTP2ServerStream>) {
    unsafe current = nil
    unsafe stream.pointee.hasHeaders = true
  }

  mutating func received(_ stream: UnsafeMutablePointer<HTTP2ServerStream>, _ bytes: UnsafeRawBufferPointer) {
    unsafe stream.pointee.bodyByteCount += bytes.count
    let room = unsafe max(0, limits.bodyByteCount - stream.pointee.body.count)
    unsafe stream.pointee.body.append(UnsafeRawBufferPointer(rebasing: bytes.prefix(room)))
  }

  mutating func requestEnded(_ stream: UnsafeMutablePointer<HTTP2ServerStream>) {
    guard unsafe !stream.pointee.isReported, unsafe stream.pointee.hasHeaders else { return }
    unsafe stream.pointee.isReported = true
    unsafe events.append(.request(stream))
  }

  /// nghttp2 has closed the stream.
  mutating func closed(_ stream: UnsafeMutablePointer<HTTP2ServerStream>, _ errorCode: UInt32) {
    if unsafe current == stream { unsafe current = nil }
    openCount -= 1
    unsafe stream.pointee.isClosed = true
    unsafe stream.pointee.releaseAnswerFields()
    if unsafe !stream.pointee.isAnswered {
      unsafe events.append(
        .plain(.ended(streamID: stream.pointee.streamID, errorCode: HTTP2ErrorCode(rawValue: errorCode))))
    }
    unsafe giveIfUnused(stream)
  }

  /// The last event taken is no longer in use.
  mutating func returnLent() {
    guard let stream = unsafe lent else { return }
    unsafe lent = nil
    unsafe stream.pointee.isReported = false
    unsafe giveIfUnused(stream)
  }

  mutating func settingsAcknowledged() {
    guard !announced.isEmpty else { return }
    if let limit = announced.removeFirst() { acknowledgedLimit = limit }
  }
}

// MARK: What the callbacks call

extension HTTP2ServerCore {
  /// - Parameter data: nghttp2's user data of a session.
  @inline(__always)
  static func core(_ data: UnsafeMutableRawPointer?) -> UnsafeMutablePointer<Self>? {
    unsafe data?.assumingMemoryBound(to: Self.self)
  }

  @inline(__always)
  static func stream(_ session: OpaquePointer?, _ streamID: Int32) -> UnsafeMutablePointer<HTTP2ServerStream>? {
    unsafe nghttp2_session_get_stream_user_data(session, streamID)?.assumingMemoryBound(to: HTTP2ServerStream.self)
  }

  @inline(__always)
  static func header(
    _ name: UnsafePointer<UInt8>?, _ nameCount: Int, _ value: UnsafePointer<UInt8>?, _ valueCount: Int,
    _ data: UnsafeMutableRawPointer?
  ) -> Int32 {
    guard let core = unsafe core(data), let stream = unsafe core.pointee.current else { return 0 }
    let isAcceptable = unsafe core.pointee.field(
      stream, name: UnsafeRawBufferPointer(start: name, count: nameCount),
      value: UnsafeRawBufferPointer(start: value, count: valueCount))
    return isAcceptable ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
  }

  @inline(__always)
  static func body(
    _ session: OpaquePointer?, _ streamID: Int32, _ bytes: UnsafePointer<UInt8>?, _ count: Int,
    _ data: UnsafeMutableRawPointer?
  ) -> Int32 {
    guard let core = unsafe core(data), let stream = unsafe stream(session, streamID) else { return 0 }
    unsafe core.pointee.received(stream, UnsafeRawBufferPointer(start: bytes, count: count))
    return 0
  }

  @inline(__always)
  static func close(
    _ session: OpaquePointer?, _ streamID: Int32, _ errorCode: UInt32, _ data: UnsafeMutableRawPointer?
  ) -> Int32 {
    guard let core = unsafe core(data), let stream = unsafe stream(session, streamID) else { return 0 }
    _ = unsafe nghttp2_session_set_stream_user_data(session, streamID, nil)
    unsafe core.pointee.closed(stream, errorCode)
    return 0
  }

  /// A peer may send any number of GOAWAYs, so those of one read become one event.
  mutating func received(_ goAway: HTTP2GoAway) {
    self.goAway = goAway
    guard isGoAwayReported else { return }
    reportGoAway()
    isGoAwayReported = false
  }
}
