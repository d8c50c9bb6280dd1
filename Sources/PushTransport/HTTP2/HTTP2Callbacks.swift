internal import CNGHTTP2

/// The functions that nghttp2 calls for a session.
///
/// They are C functions: each gets the address of its core, and finds the stream by nghttp2's user
/// data.
@safe
struct HTTP2Callbacks {
  let beginHeaders: nghttp2_on_begin_headers_callback
  let header: nghttp2_on_header_callback
  let frame: nghttp2_on_frame_recv_callback
  let data: nghttp2_on_data_chunk_recv_callback
  let close: nghttp2_on_stream_close_callback
  let sendBody: nghttp2_send_data_callback
  let beforeFrame: nghttp2_before_frame_send_callback

  /// A session with these callbacks.
  ///
  /// - Parameters:
  ///   - configure: sets the options.
  ///   - create: makes the session from callbacks and options. Returns 0 on success.
  func makeSession(
    configure: (_ options: OpaquePointer?) -> Void,
    create: (_ session: inout OpaquePointer?, _ callbacks: OpaquePointer?, _ options: OpaquePointer?) -> Int32
  ) -> OpaquePointer? {
    var callbacks: OpaquePointer?
    var options: OpaquePointer?
    var session: OpaquePointer?
    guard unsafe nghttp2_session_callbacks_new(&callbacks) == 0, unsafe nghttp2_option_new(&options) == 0 else {
      return nil
    }
    defer {
      unsafe nghttp2_session_callbacks_del(callbacks)
      unsafe nghttp2_option_del(options)
    }
    unsafe configure(options)
    unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, beginHeaders)
    unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks, header)
    unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frame)
    unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, data)
    unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, close)
    unsafe nghttp2_session_callbacks_set_send_data_callback(callbacks, sendBody)
    unsafe nghttp2_session_callbacks_set_before_frame_send_callback(callbacks, beforeFrame)
    guard unsafe create(&session, callbacks, options) == 0 else { return nil }
    return unsafe session
  }

  /// Returns how much of a body goes into the next frame. ``send(_:of:sent:count:to:limit:)`` then
  /// reads it in place.
  static func readBody(left: Int, length: Int, _ flags: UnsafeMutablePointer<UInt32>) -> Int {
    let count = min(left, length)
    unsafe flags.pointee |= UInt32(NGHTTP2_DATA_FLAG_NO_COPY.rawValue)
    if count == left { unsafe flags.pointee |= UInt32(NGHTTP2_DATA_FLAG_EOF.rawValue) }
    return count
  }

  /// Outputs a DATA frame: its header, and the next `count` bytes of `body`.
  static func send(
    _ header: UnsafePointer<UInt8>, of body: UnsafeRawPointer?, sent: inout Int, count: Int, to output: HTTP2Output,
    limit: Int
  ) -> Int32 {
    unsafe output.append(header, count: 9)
    if count > 0, let body = unsafe body {
      unsafe output.append(body + sent, count: count)
      sent += count
    }
    return output.count >= limit ? NGHTTP2_ERR_PAUSE.rawValue : 0
  }
}

extension HTTP2GoAway {
  static let debugByteCountLimit = 1024

  init(_ frame: nghttp2_goaway) {
    let data = unsafe UnsafeRawBufferPointer(start: frame.opaque_data, count: frame.opaque_data_len)
    self.init(
      lastStreamID: unsafe frame.last_stream_id, errorCode: HTTP2ErrorCode(rawValue: unsafe frame.error_code),
      debugData: unsafe Array(data.prefix(Self.debugByteCountLimit)))
  }
}

extension HTTP2Failure {
  /// A failure of nghttp2 itself.
  init(library code: Int) {
    self.init(
      errorCode: .internalError,
      description: unsafe "the HTTP/2 session failed: \(String(cString: nghttp2_strerror(Int32(code))))")
  }

  /// A GOAWAY that nghttp2 sends by itself, because the peer has broken the rules.
  init(givingOut frame: nghttp2_goaway) {
    let goAway = unsafe HTTP2GoAway(frame)
    self.init(goAway: goAway.errorCode, debugData: String(decoding: goAway.debugData, as: UTF8.self))
  }
}
