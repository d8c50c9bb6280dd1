internal import CNGHTTP2
package import PushTransport

/// The server's side of one HTTP/2 connection, without a socket or a clock: the counterpart of
/// ``HTTP2ClientSession``, for simulators.
///
/// It reports clients' mistakes and leaves the decision to its caller, as far as HTTP/2 allows. It
/// is used by one thread at a time.
@safe
package final class HTTP2ServerSession {
  package struct Options: Sendable {
    /// The first SETTINGS_MAX_CONCURRENT_STREAMS; nil: not announced, which means no limit.
    package var streamLimit: UInt32? = 1000
    package var limits = HTTP2Limits()
    /// SETTINGS_INITIAL_WINDOW_SIZE, per stream. The connection's window is 16 times as large.
    package var windowByteCount: UInt32 = 65_535
    /// Whether PINGs are answered. False simulates a dead peer.
    package var answersPings = true

    package init() {}
  }

  /// More open streams than this end the connection, whatever limit was announced.
  private static let hardStreamLimit: UInt32 = 100_000

  private let connection: HTTP2ServerConnection
  private var core: UnsafeMutablePointer<HTTP2ServerCore> { unsafe connection.core }
  private var session: OpaquePointer { unsafe connection.session }
  private let fields: UnsafeMutablePointer<nghttp2_nv>
  private let statusText: UnsafeMutablePointer<UInt8>

  private static let fieldCountLimit = 24

  /// - Parameter memory: that of the connection's event loop, if it has any; otherwise the
  ///   session's own.
  /// - Throws: if nghttp2 is out of memory.
  package init(options: Options = Options(), memory: HTTP2ServerMemory = .init()) throws(HTTP2Failure) {
    connection = unsafe try HTTP2ServerConnection(
      HTTP2ServerCore(limits: options.limits, output: memory.output), memory
    ) { unsafe HTTP2ServerCallbacks.makeSession($0, $1, answersPings: options.answersPings) }
    unsafe fields = .allocate(capacity: Self.fieldCountLimit)
    unsafe statusText = .allocate(capacity: 3)
    var first = [
      nghttp2_settings_entry(
        settings_id: Int32(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE.rawValue), value: options.windowByteCount),
      nghttp2_settings_entry(
        settings_id: Int32(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE.rawValue),
        value: UInt32(options.limits.headerByteCount)),
    ]
    submitSettings(&first, streamLimit: options.streamLimit)
    let window = Int32(clamping: Int(options.windowByteCount) * 16)
    if window > 65_535 {
      _ = unsafe nghttp2_session_set_local_window_size(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, window)
    }
  }

  deinit {
    connection.deallocate()
    unsafe fields.deallocate()
    unsafe statusText.deallocate()
  }

  // MARK: State

  package var failure: HTTP2Failure? { unsafe core.pointee.failure }
  /// The last GOAWAY of the client.
  package var goAway: HTTP2GoAway? { unsafe core.pointee.goAway }
  /// Streams that have begun and not ended, answered or not.
  package var openStreamCount: Int { unsafe core.pointee.openCount }
  /// The highest stream that was reported.
  package var lastStreamID: Int32 { unsafe nghttp2_session_get_last_proc_stream_id(session) }
  /// The connection can be closed: nothing is in flight in either direction, and nothing can
  /// follow.
  package var isFinished: Bool { connection.isFinished }

  /// How often nghttp2 has allocated from the system, for all sessions with the same memory.
  /// Constant in a steady state.
  package var allocationCount: Int { connection.allocationCount }

  // MARK: Responses and control

  /// Answers a stream. Ignored if it has ended or was answered before.
  ///
  /// - Parameters:
  ///   - status: 100…999.
  ///   - identifier: the `apns-id`, byte for byte; nil: none.
  ///   - fields: further fields; a ``ResponseFields`` can be reused.
  ///   - body: copied.
  package func respond(
    _ streamID: Int32, status: UInt16, identifier: UnsafeRawBufferPointer? = nil, fields extra: ResponseFields? = nil,
    body: UnsafeRawBufferPointer = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
  ) {
    guard let stream = unsafe HTTP2ServerCore.stream(session, streamID), unsafe !stream.pointee.isAnswered else {
      return
    }
    unsafe stream.pointee.isAnswered = true
    for (index, divisor) in [100, 10, 1].enumerated() {
      unsafe statusText[index] = 0x30 + UInt8(Int(status) / divisor % 10)
    }
    // nghttp2 copies it within the call.
    unsafe fields[0] = HTTP2FieldList.field(.status, value: statusText, count: 3, isIndexed: true)
    var count = 1
    if let identifier = unsafe identifier, let base = identifier.baseAddress {
      let value = unsafe UnsafeMutablePointer(mutating: base.assumingMemoryBound(to: UInt8.self))
      unsafe fields[count] = HTTP2FieldList.field(.identifier, value: value, count: identifier.count, isIndexed: false)
      count += 1
    }
    if let extra {
      unsafe stream.pointee.answerFields = unsafe Unmanaged.passRetained(extra)
      let added = min(extra.list.count, Self.fieldCountLimit - count)
      unsafe (fields + count).update(from: extra.list.fields, count: added)
      count += added
    }
    if body.count > 0 {
      unsafe stream.pointee.answer.append(body)
      var provider = unsafe nghttp2_data_provider(
        source: nghttp2_data_source(ptr: stream), read_callback: HTTP2ServerCallbacks.readBody)
      connection.check(unsafe nghttp2_submit_response(session, streamID, fields, count, &provider))
    } else {
      connection.check(unsafe nghttp2_submit_response(session, streamID, fields, count, nil))
    }
  }

  /// The same with a body in an array.
  package func respond(
    _ streamID: Int32, status: UInt16, identifier: [UInt8]?, fields: ResponseFields? = nil, body: [UInt8]
  ) {
    unsafe body.withUnsafeBytes { body in
      guard let identifier else {
        return unsafe respond(streamID, status: status, identifier: nil, fields: fields, body: body)
      }
      unsafe identifier.withUnsafeBytes {
        unsafe respond(streamID, status: status, identifier: $0, fields: fields, body: body)
      }
    }
  }

  /// Ends a stream with RST_STREAM.
  package func reset(_ streamID: Int32, _ code: HTTP2ErrorCode) {
    if let stream = unsafe HTTP2ServerCore.stream(session, streamID) { unsafe stream.pointee.isAnswered = true }
    connection.check(
      unsafe nghttp2_submit_rst_stream(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), streamID, code.rawValue))
  }

  /// Sends GOAWAY. When it is output, open streams above `lastStreamID` end as
  /// ``HTTP2ServerEvent/ended(streamID:errorCode:)``. Later streams are ignored.
  ///
  /// - Parameter lastStreamID: any stream of the client, also one between open streams, but none
  ///   above that of an earlier GOAWAY.
  package func sendGoAway(lastStreamID: Int32, code: HTTP2ErrorCode, debugData: [UInt8] = []) {
    unsafe core.pointee.ownGoAways += 1
    let result = unsafe nghttp2_submit_goaway(
      session, UInt8(NGHTTP2_FLAG_NONE.rawValue), lastStreamID, code.rawValue, debugData, debugData.count)
    if result != 0 { unsafe core.pointee.ownGoAways -= 1 }
  }

  /// Announces another limit of concurrent streams. The old limit applies until the client has
  /// acknowledged the new one.
  package func setStreamLimit(_ limit: UInt32) {
    var entries: [nghttp2_settings_entry] = []
    submitSettings(&entries, streamLimit: limit)
  }

  /// nghttp2 itself ends connections with too many streams, before the caller can decide. So
  /// nghttp2 gets a limit that is never reached, and the announced limit is written into the frame
  /// when it is output (``output(limit:)``).
  private func submitSettings(_ entries: inout [nghttp2_settings_entry], streamLimit: UInt32?) {
    if streamLimit != nil {
      entries.append(
        nghttp2_settings_entry(
          settings_id: Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue), value: Self.hardStreamLimit))
    }
    guard unsafe nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), entries, entries.count) == 0 else {
      return
    }
    unsafe core.pointee.announced.append(streamLimit)
    unwritten.append(streamLimit)
  }

  /// Limits in SETTINGS that were not output yet.
  private var unwritten: [UInt32?] = []

  // MARK: Bytes and events

  /// Processes bytes of the client. The connection's preface comes first.
  package func receive(_ bytes: UnsafeRawBufferPointer) { unsafe connection.receive(bytes) }

  /// The next event, in order; nil if there is none.
  package func nextEvent() -> HTTP2ServerEvent? {
    unsafe core.pointee.returnLent()
    while unsafe core.pointee.nextEvent < core.pointee.events.count {
      let event = unsafe core.pointee.events[core.pointee.nextEvent]
      unsafe core.pointee.nextEvent += 1
      switch event {
      case .plain(let event):
        if case .goAway = event { unsafe core.pointee.isGoAwayReported = true }
        return event
      case .request(let stream):
        unsafe core.pointee.lent = unsafe stream
        // A stream that has ended meanwhile is still reported as a request, followed by its end. A
        // real gateway may also have taken such a request before it noticed the end.
        if let request = unsafe stream.pointee.request { return .request(request) }
        unsafe core.pointee.returnLent()
      }
    }
    unsafe core.pointee.events.removeAll(keepingCapacity: true)
    unsafe core.pointee.nextEvent = 0
    return nil
  }

  /// The next bytes to send, valid until the next call to any session with the same memory. Empty
  /// if there is nothing to send.
  package func output(limit: Int = 256 * 1024) -> UnsafeRawBufferPointer {
    unsafe connection.output(limit: limit) { start, count in
      guard !unwritten.isEmpty, unsafe core.pointee.output.isSettings(frameAt: start, byteCount: count) else { return }
      unsafe core.pointee.output.writeStreamLimit(unwritten.removeFirst(), frameAt: start, byteCount: count)
    }
  }
}

/// Header fields of responses, made once.
package final class ResponseFields: Sendable {
  let list: HTTP2FieldList

  /// - Parameter fields: at most 20, without `:status` and `apns-id`.
  package init(_ fields: [HTTP2Field]) {
    precondition(fields.count <= 20, "at most 20 fields")
    list = HTTP2FieldList(fields)
  }
}

extension HTTP2Output {
  /// The frame that was appended at `start` is SETTINGS, and no acknowledgement.
  func isSettings(frameAt start: Int, byteCount: Int) -> Bool {
    let bytes = unsafe bytes
    guard byteCount >= 9, start + byteCount <= bytes.count else { return false }
    return unsafe UInt32(bytes[start + 3]) == NGHTTP2_SETTINGS.rawValue
      && bytes[start + 4] & UInt8(NGHTTP2_FLAG_ACK.rawValue) == 0
  }

  /// Writes the limit into a SETTINGS frame that was appended at `start`; nil: the frame has no
  /// limit.
  func writeStreamLimit(_ limit: UInt32?, frameAt start: Int, byteCount: Int) {
    guard let limit else { return }
    let bytes = unsafe bytes
    for offset in stride(from: start + 9, through: start + byteCount - 6, by: 6) {
      let identifier = unsafe UInt32(bytes[offset]) << 8 | UInt32(bytes[offset + 1])
      if identifier == NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue { write(limit, at: offset + 2) }
    }
  }
}
