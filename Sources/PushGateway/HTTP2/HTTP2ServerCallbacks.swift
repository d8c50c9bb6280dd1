internal import CNGHTTP2
internal import PushTransport

/// The functions that nghttp2 calls for a session.
///
/// They are C functions: each gets the address of its core, and finds the stream by nghttp2's user
/// data.
enum HTTP2ServerCallbacks {
  private typealias Core = HTTP2ServerCore

  /// A server session that calls back with `core`, and allocates its memory from `share`.
  static func makeSession(
    _ core: UnsafeMutablePointer<HTTP2ServerCore>, _ share: UnsafeMutablePointer<carillon_h2_share>, answersPings: Bool
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
    // Closed streams would be kept for priorities, which the service ignores.
    unsafe nghttp2_option_set_no_closed_streams(options, 1)
    unsafe nghttp2_option_set_no_auto_ping_ack(options, answersPings ? 0 : 1)
    unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, onBeginHeaders)
    unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks, onHeader)
    unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, onFrame)
    unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, onData)
    unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, onClose)
    unsafe nghttp2_session_callbacks_set_send_data_callback(callbacks, sendBody)
    unsafe nghttp2_session_callbacks_set_before_frame_send_callback(callbacks, beforeFrame)
    let functions = unsafe carillon_h2_share_functions(share)
    guard unsafe nghttp2_session_server_new3(&session, callbacks, core, options, functions) == 0 else { return nil }
    return unsafe session
  }

  // MARK: Sending

  /// Says how much of a body goes into the next frame; `sendBody` then reads it in place.
  static let readBody: nghttp2_data_source_read_callback = { _, _, _, length, flags, source, _ in
    guard let stream = unsafe source?.pointee.ptr?.assumingMemoryBound(to: HTTP2ServerStream.self),
      let flags = unsafe flags
    else {
      return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
    }
    let left = unsafe stream.pointee.answer.count - stream.pointee.sentByteCount
    unsafe flags.pointee |= UInt32(NGHTTP2_DATA_FLAG_NO_COPY.rawValue)
    if left <= length { unsafe flags.pointee |= UInt32(NGHTTP2_DATA_FLAG_EOF.rawValue) }
    return min(left, length)
  }

  /// Outputs a DATA frame: its header, and the next bytes of the body.
  private static let sendBody: nghttp2_send_data_callback = { _, _, header, length, source, data in
    guard let core = unsafe Core.core(data),
      let stream = unsafe source?.pointee.ptr?.assumingMemoryBound(to: HTTP2ServerStream.self),
      let header = unsafe header
    else { return NGHTTP2_ERR_CALLBACK_FAILURE.rawValue }
    let output = unsafe core.pointee.output
    unsafe output.append(header, count: 9)
    if length > 0, let body = unsafe stream.pointee.answer.base {
      unsafe output.append(body + stream.pointee.sentByteCount, count: length)
      unsafe stream.pointee.sentByteCount += length
    }
    return unsafe output.bytes.count >= core.pointee.outputLimit ? NGHTTP2_ERR_PAUSE.rawValue : 0
  }

  private static let beforeFrame: nghttp2_before_frame_send_callback = { _, frame, data in
    guard let frame = unsafe frame, let core = unsafe Core.core(data),
      unsafe UInt32(frame.pointee.hd.type) == NGHTTP2_GOAWAY.rawValue
    else { return 0 }
    if unsafe core.pointee.ownGoAways > 0 {
      unsafe core.pointee.ownGoAways -= 1
    } else if unsafe core.pointee.failure == nil {
      unsafe core.pointee.failure = unsafe HTTP2Failure(givingOut: frame.pointee.goaway)
    }
    return 0
  }

  // MARK: Receiving

  private static let onBeginHeaders: nghttp2_on_begin_headers_callback = { session, frame, data in
    guard let frame = unsafe frame, let core = unsafe Core.core(data) else { return 0 }
    let streamID = unsafe frame.pointee.hd.stream_id
    if let known = unsafe Core.stream(session, streamID) {
      // Trailers.
      unsafe core.pointee.current = unsafe known
      return 0
    }
    let stream = unsafe core.pointee.take(streamID)
    guard unsafe nghttp2_session_set_stream_user_data(session, streamID, stream) == 0 else {
      return NGHTTP2_ERR_CALLBACK_FAILURE.rawValue
    }
    unsafe core.pointee.began(stream)
    return 0
  }

  private static let onHeader: nghttp2_on_header_callback = { _, _, name, nameCount, value, valueCount, _, data in
    unsafe Core.header(name, nameCount, value, valueCount, data)
  }

  private static let onData: nghttp2_on_data_chunk_recv_callback = { session, _, streamID, bytes, count, data in
    unsafe Core.body(session, streamID, bytes, count, data)
  }

  private static let onFrame: nghttp2_on_frame_recv_callback = { session, frame, data in
    guard let frame = unsafe frame, let core = unsafe Core.core(data) else { return 0 }
    let header = unsafe frame.pointee.hd
    let isEnd = header.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0
    switch UInt32(header.type) {
    case NGHTTP2_HEADERS.rawValue, NGHTTP2_DATA.rawValue:
      guard let stream = unsafe Core.stream(session, header.stream_id) else { return 0 }
      if UInt32(header.type) == NGHTTP2_HEADERS.rawValue { unsafe core.pointee.headersEnded(stream) }
      if isEnd { unsafe core.pointee.requestEnded(stream) }
    case NGHTTP2_SETTINGS.rawValue:
      if header.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0 { unsafe core.pointee.settingsAcknowledged() }
    case NGHTTP2_GOAWAY.rawValue: unsafe core.pointee.received(HTTP2GoAway(frame.pointee.goaway))
    default: break
    }
    return 0
  }

  private static let onClose: nghttp2_on_stream_close_callback = { session, streamID, errorCode, data in
    unsafe Core.close(session, streamID, errorCode, data)
  }
}

extension HTTP2GoAway {
  fileprivate init(_ frame: nghttp2_goaway) {
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
  fileprivate init(givingOut frame: nghttp2_goaway) {
    let goAway = unsafe HTTP2GoAway(frame)
    self.init(goAway: goAway.errorCode, debugData: String(decoding: goAway.debugData, as: UTF8.self))
  }
}
