package import PushTransport

/// An event of a server session.
@safe
package enum HTTP2ServerEvent {
  /// A request is complete.
  case request(HTTP2Request)
  /// A request has begun although the client already has as many open streams as its limit allows.
  /// The request is reported as well, and the caller decides.
  case streamLimitExceeded(streamID: Int32, openCount: Int, limit: Int)
  /// A stream has ended before it was answered: the client has cancelled it, or our GOAWAY has
  /// ended it.
  case ended(streamID: Int32, errorCode: HTTP2ErrorCode)
  /// The client has sent a GOAWAY.
  case goAway
}

/// A complete request. Its bytes are valid until the next call of
/// ``HTTP2ServerSession/nextEvent()``.
@safe
package struct HTTP2Request {
  package let streamID: Int32
  /// The number of fields, including pseudo-headers, in the order of arrival.
  package let fieldCount: Int
  /// At most ``HTTP2Limits/bodyByteCount`` bytes.
  package let body: UnsafeRawBufferPointer
  /// The size of the whole body, including the part that was not kept.
  package let bodyByteCount: Int
  fileprivate let text: UnsafePointer<UInt8>
  fileprivate let fields: UnsafePointer<HTTP2FieldRange>

  package func name(_ index: Int) -> UnsafeRawBufferPointer {
    precondition(index >= 0 && index < fieldCount, "field \(index) of \(fieldCount)")
    let field = unsafe fields[index]
    return unsafe UnsafeRawBufferPointer(start: text + Int(field.start), count: Int(field.nameCount))
  }

  package func value(_ index: Int) -> UnsafeRawBufferPointer {
    precondition(index >= 0 && index < fieldCount, "field \(index) of \(fieldCount)")
    let field = unsafe fields[index]
    return unsafe UnsafeRawBufferPointer(
      start: text + Int(field.start) + Int(field.nameCount), count: Int(field.valueCount))
  }
}

/// The place of a field in the text of its request.
struct HTTP2FieldRange {
  var start: Int32
  var nameCount: Int32
  var valueCount: Int32
}

/// Growing memory. A limit bounds what is kept for reuse.
@safe
struct HTTP2Bytes {
  private(set) var base: UnsafeMutablePointer<UInt8>?
  private(set) var count = 0
  private var capacity = 0

  mutating func append(_ bytes: UnsafeRawBufferPointer) {
    guard bytes.count > 0, let source = bytes.baseAddress else { return }
    reserve(bytes.count)
    guard let base = unsafe base else { return }
    unsafe UnsafeMutableRawPointer(base + count).copyMemory(from: source, byteCount: bytes.count)
    count += bytes.count
  }

  mutating func clear() { count = 0 }

  mutating func deallocate() {
    unsafe base?.deallocate()
    self = HTTP2Bytes()
  }

  private mutating func reserve(_ added: Int) {
    guard capacity - count < added else { return }
    let larger = max(capacity * 2, count + added, 512)
    let moved = UnsafeMutablePointer<UInt8>.allocate(capacity: larger)
    if let base = unsafe base {
      unsafe moved.update(from: base, count: count)
      unsafe base.deallocate()
    }
    unsafe base = unsafe moved
    capacity = larger
  }
}

/// One stream of a client. Its address is fixed, because nghttp2 keeps it.
@safe
struct HTTP2ServerStream {
  var streamID: Int32 = 0
  var nextFree: UnsafeMutablePointer<HTTP2ServerStream>?
  var isInUse = false

  var text = HTTP2Bytes()
  var body = HTTP2Bytes()
  var bodyByteCount = 0
  var fields: UnsafeMutablePointer<HTTP2FieldRange>?
  var fieldCount = 0
  var headerByteCount = 0
  var hasHeaders = false
  /// Its request is a waiting event, or the last event that was taken.
  var isReported = false
  var isAnswered = false
  /// nghttp2 has closed it.
  var isClosed = false

  // The response.
  var answer = HTTP2Bytes()
  var sentByteCount = 0
  /// nghttp2 reads them in place.
  var answerFields: Unmanaged<ResponseFields>?

  /// Prepares for the next request and keeps the memory.
  mutating func clear() {
    text.clear()
    body.clear()
    answer.clear()
    (streamID, bodyByteCount, fieldCount, headerByteCount, sentByteCount) = (0, 0, 0, 0, 0)
    (hasHeaders, isReported, isAnswered, isClosed) = (false, false, false, false)
  }

  mutating func releaseAnswerFields() {
    unsafe answerFields?.release()
    unsafe answerFields = nil
  }

  mutating func deallocate() {
    releaseAnswerFields()
    text.deallocate()
    body.deallocate()
    answer.deallocate()
    unsafe fields?.deallocate()
  }

  /// Nil without fields. nghttp2 lets no such request pass.
  var request: HTTP2Request? {
    guard let text = unsafe text.base, let fields = unsafe fields else { return nil }
    return unsafe HTTP2Request(
      streamID: streamID, fieldCount: fieldCount, body: UnsafeRawBufferPointer(start: body.base, count: body.count),
      bodyByteCount: bodyByteCount, text: text, fields: fields)
  }
}
