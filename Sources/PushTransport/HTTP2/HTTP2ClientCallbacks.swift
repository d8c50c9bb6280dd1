internal import CNGHTTP2

/// The client's callbacks for nghttp2.
enum HTTP2ClientCallbacks {
  private typealias Core = HTTP2ClientCore

  private static let callbacks = unsafe HTTP2Callbacks(
    beginHeaders: onBeginHeaders, header: onHeader, frame: onFrame, data: onData, close: onClose, sendBody: sendBody,
    beforeFrame: beforeFrame)

  /// A client session that calls back with `core`, and allocates its memory from `share`.
  static func makeSession(
    _ core: UnsafeMutablePointer<HTTP2ClientCore>, _ share: UnsafeMutablePointer<carillon_h2_share>
  ) -> OpaquePointer? {
    unsafe callbacks.makeSession { options in
      // Valid until the peer's SETTINGS arrive: see HTTP2ProviderAPI.md, "What our sender makes of
      // it".
      unsafe nghttp2_option_set_peer_max_concurrent_streams(options, 1)
    } create: { session, callbacks, options in
      unsafe nghttp2_session_client_new3(&session, callbacks, core, options, carillon_h2_share_functions(share))
    }
  }

  // MARK: Sending

  /// Returns how much of a body goes into the next frame. ``sendBody`` then reads it in place.
  static let readBody: nghttp2_data_source_read_callback = { _, _, _, length, flags, source, _ in
    guard let stream = unsafe source?.pointee.ptr?.assumingMemoryBound(to: HTTP2ClientStream.self),
      let flags = unsafe flags
    else {
      return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
    }
    // The response has arrived, so the caller may have reused the body's memory.
    guard unsafe !stream.pointee.isAnswered else { return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue) }
    return unsafe HTTP2Callbacks.readBody(
      left: stream.pointee.bodyByteCount - stream.pointee.sentByteCount, length: length, flags)
  }

  private static let sendBody: nghttp2_send_data_callback = { _, _, header, length, source, data in
    guard let core = unsafe Core.core(data),
      let stream = unsafe source?.pointee.ptr?.assumingMemoryBound(to: HTTP2ClientStream.self),
      let header = unsafe header
    else { return NGHTTP2_ERR_CALLBACK_FAILURE.rawValue }
    return unsafe HTTP2Callbacks.send(
      header, of: stream.pointee.body, sent: &stream.pointee.sentByteCount, count: length, to: core.pointee.output,
      limit: core.pointee.outputLimit)
  }

  /// Called before a frame is output. The callback for "after" comes only with the next frame,
  /// which may be much later.
  private static let beforeFrame: nghttp2_before_frame_send_callback = { session, frame, data in
    guard let frame = unsafe frame, let core = unsafe Core.core(data) else { return 0 }
    switch unsafe UInt32(frame.pointee.hd.type) {
    case NGHTTP2_HEADERS.rawValue:
      if let stream = unsafe Core.stream(session, frame.pointee.hd.stream_id) { unsafe stream.pointee.isSent = true }
    case NGHTTP2_GOAWAY.rawValue:
      // A GOAWAY that we did not request: nghttp2 has found an error.
      if unsafe !core.pointee.isClosing, unsafe core.pointee.failure == nil {
        unsafe core.pointee.failure = unsafe HTTP2Failure(givingOut: frame.pointee.goaway)
      }
    default: break
    }
    return 0
  }

  // MARK: Receiving

  private static let onBeginHeaders: nghttp2_on_begin_headers_callback = { session, frame, data in
    guard let frame = unsafe frame, let core = unsafe Core.core(data),
      let stream = unsafe Core.stream(session, frame.pointee.hd.stream_id)
    else { return 0 }
    unsafe core.pointee.headersBegan(stream)
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
      guard isEnd else { return 0 }
      unsafe core.pointee.answered(stream)
      // The response came before the end of the request. The service does not need the rest of the
      // body, and its memory may no longer be read.
      if unsafe stream.pointee.sentByteCount < stream.pointee.bodyByteCount {
        _ = unsafe nghttp2_submit_rst_stream(
          session, UInt8(NGHTTP2_FLAG_NONE.rawValue), header.stream_id, HTTP2ErrorCode.cancel.rawValue)
      }
    case NGHTTP2_SETTINGS.rawValue:
      guard header.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) == 0 else { return 0 }
      unsafe core.pointee.hasSettings = true
      unsafe core.pointee.areSettingsTold = false
    case NGHTTP2_GOAWAY.rawValue: unsafe core.pointee.received(HTTP2GoAway(frame.pointee.goaway))
    case NGHTTP2_PING.rawValue:
      guard header.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0 else { return 0 }
      unsafe core.pointee.pongArrived(frame.pointee.ping.opaque_data)
    default: break
    }
    return 0
  }

  private static let onClose: nghttp2_on_stream_close_callback = { session, streamID, errorCode, data in
    unsafe Core.close(session, streamID, errorCode, data)
  }
}
