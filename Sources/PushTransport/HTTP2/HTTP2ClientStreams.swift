internal import PushWire

/// One request in flight.
@safe
struct HTTP2ClientStream {
  var tag: UInt64 = 0
  /// 0: the place is free.
  var streamID: Int32 = 0

  // The request.
  /// What the peer's window still permits; negative after SETTINGS that make it smaller.
  var window = 0
  /// The rest of a body that a window holds back.
  var body: UnsafeRawPointer?
  var bodyLeft = 0
  /// Owns the body, if that is the template's.
  var template: Unmanaged<RequestTemplate>?

  // The response.
  var status: UInt16 = 0
  /// The final header block has ended; a later one is trailers.
  var hasFinalHeaders = false
  var keepsEverything = false
  var isBodyCut = false
  var apnsID: APNSIdentifier?
  var retryAfter: UInt32?
  var date: Int64?
  /// The peer's `content-length`.
  var contentByteCount: Int?
  var receivedBody: UnsafeMutableRawPointer?
  var keptByteCount = 0
  var receivedByteCount = 0
  /// Received bytes that no WINDOW_UPDATE has given back.
  var unreturnedByteCount = 0
}

/// The open streams of a connection, in a ring: a stream's number gives its place.
///
/// A number whose place is still taken, by a stream that has been open for that long, is left out.
/// HTTP/2 permits gaps. The ring has at least twice as many places as there are open streams.
@safe
struct HTTP2ClientStreams: ~Copyable {
  private var places: UnsafeMutablePointer<HTTP2ClientStream>
  private var mask: Int
  private(set) var count = 0
  /// The number of the next stream, unless its place is taken.
  private(set) var next = 1

  /// In a deployment with many apps, most connections carry only a few requests.
  private static let firstCapacity = 16
  private static let largestNumber = Int(Int32.max)

  init() {
    unsafe places = .allocate(capacity: Self.firstCapacity)
    unsafe places.initialize(repeating: HTTP2ClientStream(), count: Self.firstCapacity)
    mask = Self.firstCapacity - 1
  }

  deinit { unsafe places.deallocate() }

  /// False: the numbers are used up.
  var hasNumbers: Bool { next <= Self.largestNumber - 4 * (mask + 1) }

  /// No stream of this number was ever opened.
  func isIdle(_ streamID: Int32) -> Bool { streamID & 1 == 0 || Int(streamID) >= next }

  @inline(__always)
  func find(_ streamID: Int32) -> UnsafeMutablePointer<HTTP2ClientStream>? {
    let place = unsafe places + (Int(streamID) >> 1) & mask
    return unsafe streamID > 0 && place.pointee.streamID == streamID ? place : nil
  }

  /// A new stream. The caller has checked ``hasNumbers``.
  @inline(__always)
  mutating func open() -> UnsafeMutablePointer<HTTP2ClientStream> {
    if 2 * (count + 1) > mask + 1 { grow() }
    while unsafe places[next >> 1 & mask].streamID != 0 { next += 2 }
    let stream = unsafe places + next >> 1 & mask
    unsafe stream.pointee = HTTP2ClientStream()
    unsafe stream.pointee.streamID = Int32(next)
    next += 2
    count += 1
    return unsafe stream
  }

  @inline(__always)
  mutating func close(_ stream: UnsafeMutablePointer<HTTP2ClientStream>) {
    unsafe stream.pointee.streamID = 0
    count -= 1
  }

  /// In no particular order. `body` may close the stream.
  func forEach(_ body: (UnsafeMutablePointer<HTTP2ClientStream>) -> Void) {
    for place in 0...mask where unsafe places[place].streamID != 0 { unsafe body(places + place) }
  }

  private mutating func grow() {
    let capacity = 2 * (mask + 1)
    let larger = UnsafeMutablePointer<HTTP2ClientStream>.allocate(capacity: capacity)
    unsafe larger.initialize(repeating: HTTP2ClientStream(), count: capacity)
    unsafe forEach { stream in
      unsafe larger[Int(stream.pointee.streamID) >> 1 & (capacity - 1)] = unsafe stream.pointee
    }
    unsafe places.deallocate()
    unsafe places = unsafe larger
    mask = capacity - 1
  }
}
