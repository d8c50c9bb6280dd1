internal import CNGHTTP2

/// What the client's and the server's side of a connection have in common for nghttp2's callbacks.
///
/// A callback is a C function, which cannot be generic. So each side has its own, and calls these
/// functions. They are specialised for each side, because everything is in one module.
@safe protocol HTTP2Core {
  associatedtype Stream

  var output: HTTP2Output { get }
  /// The output ends with the first frame that reaches it.
  var outputLimit: Int { get set }
  /// The stream whose header block is being read.
  var current: UnsafeMutablePointer<Stream>? { get }
  /// The last GOAWAY of the peer.
  var goAway: HTTP2GoAway? { get set }
  /// The caller has taken the event of the last GOAWAY.
  var isGoAwayReported: Bool { get set }
  var failure: HTTP2Failure? { get set }

  /// False: the block is larger than any valid one.
  mutating func field(
    _ stream: UnsafeMutablePointer<Stream>, name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer
  ) -> Bool
  /// A part of a body has arrived.
  mutating func received(_ stream: UnsafeMutablePointer<Stream>, _ bytes: UnsafeRawBufferPointer)
  mutating func closed(_ stream: UnsafeMutablePointer<Stream>, _ errorCode: UInt32)
  /// Adds the event of a GOAWAY.
  mutating func reportGoAway()
  /// Frees everything that it owns. The nghttp2 session must be deleted before.
  mutating func deallocate()
}

extension HTTP2Core {
  /// - Parameter data: nghttp2's user data of a session.
  @inline(__always)
  static func core(_ data: UnsafeMutableRawPointer?) -> UnsafeMutablePointer<Self>? {
    unsafe data?.assumingMemoryBound(to: Self.self)
  }

  @inline(__always)
  static func stream(_ session: OpaquePointer?, _ streamID: Int32) -> UnsafeMutablePointer<Stream>? {
    unsafe nghttp2_session_get_stream_user_data(session, streamID)?.assumingMemoryBound(to: Stream.self)
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
