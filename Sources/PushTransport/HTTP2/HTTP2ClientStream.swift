internal import PushWire

/// One request in flight. Its memory has a fixed address, which nghttp2 keeps as the stream's user
/// data.
@safe
struct HTTP2ClientStream {
  var tag: UInt64 = 0
  var streamID: Int32 = 0
  /// The next stream in the free list.
  var nextFree: UnsafeMutablePointer<HTTP2ClientStream>?
  var isInUse = false

  // The request.
  var template: Unmanaged<RequestTemplate>?
  var body: UnsafeRawPointer?
  var bodyByteCount = 0
  var sentByteCount = 0
  /// Its headers were output.
  var isSent = false
  var isCancelled = false
  /// A GOAWAY has ended it before it was sent. Its end was reported, and nghttp2 may drop it later.
  var isAbandoned = false

  // The response.
  var status: UInt16 = 0
  /// The final header block has begun; a later one is trailers.
  var hasFinalHeaders = false
  var isAnswered = false
  var keepsEverything = false
  var isBodyCut = false
  var headerCount: Int32 = 0
  var headerByteCount: Int32 = 0
  var apnsID: APNSIdentifier?
  var uniqueID: APNSIdentifier?
  var retryAfter: UInt32?
  var date: Int64?
  var receivedBody: UnsafeMutableRawPointer?
  var receivedByteCount = 0
}

/// Streams in chunks, so that none ever moves. Free ones are reused.
@safe
struct HTTP2ClientStreams {
  private var chunks: [UnsafeMutableBufferPointer<HTTP2ClientStream>] = unsafe []
  private var free: UnsafeMutablePointer<HTTP2ClientStream>?
  private(set) var countInUse = 0

  /// The first chunk is small: in a deployment with many apps, most connections carry only a few
  /// requests.
  private static let chunkCounts = 8...128

  mutating func take() -> UnsafeMutablePointer<HTTP2ClientStream> {
    if unsafe free == nil { addChunk() }
    guard let stream = unsafe free else { preconditionFailure("a chunk of streams without streams") }
    unsafe free = unsafe stream.pointee.nextFree
    unsafe stream.pointee = HTTP2ClientStream()
    unsafe stream.pointee.isInUse = true
    countInUse += 1
    return unsafe stream
  }

  mutating func give(_ stream: UnsafeMutablePointer<HTTP2ClientStream>) {
    unsafe stream.pointee.isInUse = false
    unsafe stream.pointee.nextFree = unsafe free
    unsafe free = unsafe stream
    countInUse -= 1
  }

  /// A linear search, only for rare events.
  func find(_ streamID: Int32) -> UnsafeMutablePointer<HTTP2ClientStream>? {
    var found: UnsafeMutablePointer<HTTP2ClientStream>?
    unsafe forEachInUse { stream in
      if unsafe stream.pointee.streamID == streamID { unsafe found = unsafe stream }
    }
    return unsafe found
  }

  /// In no particular order.
  func forEachInUse(_ body: (UnsafeMutablePointer<HTTP2ClientStream>) -> Void) {
    for number in unsafe chunks.indices {
      let chunk = unsafe chunks[number]
      guard let base = chunk.baseAddress else { continue }
      for index in chunk.indices where unsafe base[index].isInUse { unsafe body(base + index) }
    }
  }

  func deallocate() { unsafe chunks.forEach { unsafe $0.deallocate() } }

  private mutating func addChunk() {
    let count = min(Self.chunkCounts.lowerBound << min(unsafe chunks.count, 8), Self.chunkCounts.upperBound)
    let chunk = UnsafeMutablePointer<HTTP2ClientStream>.allocate(capacity: count)
    unsafe chunk.initialize(repeating: HTTP2ClientStream(), count: count)
    for index in (0..<count).reversed() {
      unsafe chunk[index].nextFree = unsafe free
      unsafe free = unsafe chunk + index
    }
    unsafe chunks.append(UnsafeMutableBufferPointer(start: chunk, count: count))
  }
}
