internal import CNGHTTP2
package import PushWire

/// The client's side of one HTTP/2 connection, without a socket or a clock: bytes in, events out;
/// requests in, bytes out.
///
/// It is used by one thread at a time, in practice by its connection's event loop. After each
/// ``receive(_:)``, take the events, then call ``output(limit:)`` until it is empty. In a steady
/// state a request allocates nothing here. nghttp2 allocates from lists that the event loop keeps.
@safe
package final class HTTP2ClientSession {
  package struct Options: Sendable {
    /// The most streams open at once. The peer's limit applies too.
    package var streamLimit = 1000
    /// The limits of what the session keeps of the peer's data. Error bodies are below 100 bytes.
    package var limits: HTTP2Limits = {
      var limits = HTTP2Limits()
      limits.bodyByteCount = 1024
      return limits
    }()

    package init() {}
  }

  package enum Submission: Hashable, Sendable {
    case submitted(streamID: Int32)
    /// The peer's or our own limit of open streams is reached.
    case full
    /// No further request can use this connection: it is going away, has failed, or has no stream
    /// numbers left.
    case finished
  }

  private let connection: HTTP2Connection<HTTP2ClientCore>
  private var core: UnsafeMutablePointer<HTTP2ClientCore> { unsafe connection.core }
  private var session: OpaquePointer { unsafe connection.session }
  private let streamLimitOfOurs: Int

  // The header fields of one request at a time.
  private let fields: UnsafeMutablePointer<nghttp2_nv>
  private let scratch: UnsafeMutablePointer<UInt8>
  private var loaded: RequestTemplate?
  private var authorization: [HTTP2Field] = []
  private var authorizationFields = HTTP2FieldList([])
  private var commonCount = 0
  /// The first apns-id of a connection is indexed, so that later ones do not repeat the field's
  /// name (HTTP2ProviderAPI.md, section 1).
  private var hasSentIdentifier = false
  private var expirations = HTTP2Expirations()

  /// - Parameter buffers: those of the connection's event loop, if it has any; otherwise the
  ///   session's own.
  /// - Throws: if nghttp2 is out of memory.
  package init(options: Options = Options(), buffers: LoopBuffers = LoopBuffers()) throws(HTTP2Failure) {
    connection = unsafe try HTTP2Connection(
      HTTP2ClientCore(limits: options.limits, output: buffers.http2Output), buffers.http2Memory
    ) { unsafe HTTP2ClientCallbacks.makeSession($0, $1) }
    streamLimitOfOurs = options.streamLimit
    unsafe fields = .allocate(capacity: RequestTemplate.fieldCountLimit)
    unsafe scratch = .allocate(capacity: Scratch.byteCount)
    let settings: [nghttp2_settings_entry] = [
      nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0),
      nghttp2_settings_entry(
        settings_id: Int32(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE.rawValue),
        value: UInt32(options.limits.headerByteCount)),
    ]
    connection.check(
      unsafe nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), settings, settings.count))
  }

  deinit {
    connection.deallocate()
    unsafe fields.deallocate()
    unsafe scratch.deallocate()
  }

  // MARK: State

  /// Why the session cannot continue; nil if it can.
  package var failure: HTTP2Failure? { unsafe core.pointee.failure }
  /// The last GOAWAY of the peer.
  package var goAway: HTTP2GoAway? { unsafe core.pointee.goAway }
  /// Requests that were submitted and have not ended.
  package var openStreamCount: Int { unsafe core.pointee.streams.countInUse - core.pointee.abandonedCount }

  /// The number of streams that may be open now: the peer's limit, at most our own; 1 until the
  /// peer's SETTINGS arrive.
  package var streamLimit: Int {
    guard unsafe core.pointee.hasSettings else { return min(1, streamLimitOfOurs) }
    return min(
      Int(unsafe nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)),
      streamLimitOfOurs)
  }

  /// How many requests ``submit(_:token:identifier:overrides:tag:)`` takes now.
  package var availableStreamCount: Int { acceptsRequests ? max(0, streamLimit - openStreamCount) : 0 }

  /// False once the connection is going away or has failed.
  package var acceptsRequests: Bool {
    unsafe core.pointee.failure == nil && core.pointee.goAway == nil && !core.pointee.isClosing
      && nghttp2_session_check_request_allowed(session) != 0
  }

  /// The connection can be closed: nothing is in flight in either direction, and nothing can
  /// follow.
  package var isFinished: Bool { connection.isFinished }

  /// How often nghttp2 has allocated from the system, for all sessions with the same buffers.
  /// Constant in a steady state.
  package var allocationCount: Int { connection.allocationCount }

  // MARK: Requests

  /// The value of `authorization` for later requests, such as `bearer eyJ…`; nil with a
  /// certificate.
  package func setAuthorization(_ value: String?) {
    authorizationFields = HTTP2FieldList(value.map { [HTTP2Field("authorization", $0, isIndexed: false)] } ?? [])
    loaded = nil
  }

  /// Submits one request. Its bytes come with the next ``output(limit:)``.
  ///
  /// - Parameters:
  ///   - token: of the device; ignored if the template has a path of its own.
  ///   - identifier: the `apns-id`; nil: the service makes one.
  ///   - tag: returned with the event that ends the stream.
  package func submit(
    _ template: RequestTemplate, token: UnsafeRawBufferPointer, identifier: APNSIdentifier?,
    overrides: RequestOverrides = RequestOverrides(), tag: UInt64
  ) -> Submission {
    unsafe submit(
      template, token: token, identifier: identifier, overrides: overrides, tag: tag, keepsEverything: false)
  }

  /// Submits a request whose whole reply is kept for ``takeReply(_:)`` until after its response
  /// event.
  package func submit(_ template: RequestTemplate, tag: UInt64) -> Submission {
    unsafe submit(
      template, token: UnsafeRawBufferPointer(start: nil, count: 0), identifier: nil, overrides: RequestOverrides(),
      tag: tag, keepsEverything: true)
  }

  /// The reply of a stream after its response event; nil for any other stream, and for the second
  /// call.
  package func takeReply(_ streamID: Int32) -> HTTP2Reply? {
    unsafe core.pointee.replies.removeValue(forKey: streamID)
  }

  private func submit(
    _ template: RequestTemplate, token: UnsafeRawBufferPointer, identifier: APNSIdentifier?,
    overrides: RequestOverrides, tag: UInt64, keepsEverything: Bool
  ) -> Submission {
    guard acceptsRequests else { return .finished }
    guard openStreamCount < streamLimit else { return .full }
    if loaded !== template { load(template) }
    let count = unsafe fill(template, token: token, identifier: identifier, overrides: overrides)
    let stream = unsafe core.pointee.streams.take()
    unsafe stream.pointee.tag = tag
    unsafe stream.pointee.keepsEverything = keepsEverything
    unsafe stream.pointee.template = unsafe Unmanaged.passRetained(template)
    let payload = unsafe overrides.payload ?? template.payload
    unsafe stream.pointee.body = payload.baseAddress
    unsafe stream.pointee.bodyByteCount = payload.count
    var provider = unsafe nghttp2_data_provider(
      source: nghttp2_data_source(ptr: stream), read_callback: HTTP2ClientCallbacks.readBody)
    let streamID =
      payload.count == 0
      ? unsafe nghttp2_submit_request(session, nil, fields, count, nil, stream)
      : unsafe nghttp2_submit_request(session, nil, fields, count, &provider, stream)
    guard streamID > 0 else {
      unsafe core.pointee.release(stream)
      connection.check(streamID)
      return .finished
    }
    unsafe stream.pointee.streamID = streamID
    return .submitted(streamID: streamID)
  }

  /// Cancels a stream with RST_STREAM. Its end is reported as an event, unless it had its response
  /// already.
  package func cancel(_ streamID: Int32) {
    // RST_STREAM on a stream that was never opened would break the connection. nghttp2 sends one if
    // a request is cancelled twice before it is output.
    guard let stream = unsafe core.pointee.streams.find(streamID), unsafe !stream.pointee.isCancelled,
      unsafe !stream.pointee.isAnswered
    else { return }
    unsafe stream.pointee.isCancelled = true
    connection.check(
      unsafe nghttp2_submit_rst_stream(
        session, UInt8(NGHTTP2_FLAG_NONE.rawValue), streamID, HTTP2ErrorCode.cancel.rawValue))
  }

  /// Sends a PING. Its response is reported as ``HTTP2ClientEvent/pong(_:)``. Only a response to
  /// the last ping counts.
  package func ping(_ number: UInt64) {
    unsafe core.pointee.ping = number
    var bytes = number.bigEndian
    unsafe withUnsafeBytes(of: &bytes) { bytes in
      connection.check(
        unsafe nghttp2_submit_ping(
          session, UInt8(NGHTTP2_FLAG_NONE.rawValue), bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)))
    }
  }

  /// Sends GOAWAY without an error. Open streams end as refused by us. Close the connection when
  /// the output has been sent.
  package func close() {
    unsafe core.pointee.isClosing = true
    _ = unsafe nghttp2_session_terminate_session(session, HTTP2ErrorCode.noError.rawValue)
  }

  /// Calls `body` with every request that has not ended, once the connection is gone: its tag, its
  /// stream, and whether any of it was output.
  ///
  /// Take the events first. A request that was not output is certainly unsent.
  package func forEachOpenRequest(_ body: (_ tag: UInt64, _ streamID: Int32, _ wasSent: Bool) -> Void) {
    unsafe core.pointee.streams.forEachInUse { stream in
      if unsafe !stream.pointee.isAnswered {
        unsafe body(stream.pointee.tag, stream.pointee.streamID, stream.pointee.isSent)
      }
    }
  }

  // MARK: Bytes and events

  /// Processes bytes of the peer. The results are events; an error sets ``failure``.
  package func receive(_ bytes: UnsafeRawBufferPointer) {
    guard unsafe core.pointee.failure == nil, bytes.count > 0 else { return }
    unsafe connection.receive(bytes)
    if unsafe core.pointee.goAway != nil { unsafe core.pointee.abandonUnsent() }
  }

  /// The next event, in order; nil if there is none.
  package func nextEvent() -> HTTP2ClientEvent? {
    if let body = unsafe core.pointee.lentBody {
      unsafe core.pointee.giveBack(body)
      unsafe core.pointee.lentBody = nil
    }
    if unsafe !core.pointee.areSettingsTold {
      unsafe core.pointee.areSettingsTold = true
      return .settings
    }
    guard unsafe core.pointee.nextEvent < core.pointee.events.count else {
      unsafe core.pointee.events.removeAll(keepingCapacity: true)
      unsafe core.pointee.nextEvent = 0
      return nil
    }
    let event = unsafe core.pointee.events[core.pointee.nextEvent]
    unsafe core.pointee.nextEvent += 1
    if case .goAway = event { unsafe core.pointee.isGoAwayReported = true }
    if case .response(let response) = event, let body = unsafe response.body.baseAddress {
      unsafe core.pointee.lentBody = unsafe UnsafeMutableRawPointer(mutating: body)
    }
    return event
  }

  /// The next bytes to send, valid until the next call to any session with the same buffers. Empty
  /// if there is nothing to send.
  ///
  /// - Parameter limit: the bytes end with the first frame that reaches it.
  package func output(limit: Int = 256 * 1024) -> UnsafeRawBufferPointer {
    unsafe connection.output(limit: limit)
  }

  // MARK: Header lists

  private enum Scratch {
    // The size of "/3/device/" and 100 bytes of token in hexadecimal.
    static let path = 0
    static let identifier = 224
    static let expiration = 272
    static let priority = 288
    static let collapse = 296
    static let byteCount = collapse + ProviderHeaders.collapseIdentifierByteCountLimit
    static let prefix: StaticString = "/3/device/"
  }

  private func load(_ template: RequestTemplate) {
    loaded = template
    commonCount = template.fields.count + authorizationFields.count
    unsafe fields.update(from: template.fields.fields, count: template.fields.count)
    unsafe (fields + template.fields.count).update(from: authorizationFields.fields, count: authorizationFields.count)
    if template.isForDevices {
      for index in 0..<Scratch.prefix.utf8CodeUnitCount {
        unsafe scratch[Scratch.path + index] = Scratch.prefix.utf8Start[index]
      }
      // nghttp2 copies the path, because the next request overwrites it.
      unsafe fields[RequestTemplate.pathIndex] = HTTP2FieldList.field(
        .path, value: scratch, count: Scratch.prefix.utf8CodeUnitCount, isIndexed: false)
    }
  }

  /// Completes the fields for one request and returns their number.
  private func fill(
    _ template: RequestTemplate, token: UnsafeRawBufferPointer, identifier: APNSIdentifier?, overrides: RequestOverrides
  ) -> Int {
    if template.isForDevices {
      let prefix = Scratch.prefix.utf8CodeUnitCount
      let digits = unsafe HTTP2Hexadecimal.write(token, into: scratch + prefix)
      unsafe fields[RequestTemplate.pathIndex].valuelen = prefix + digits
    }
    var count = commonCount
    if let identifier {
      unsafe identifier.write(
        into: UnsafeMutableRawBufferPointer(start: scratch + Scratch.identifier, count: APNSIdentifier.textByteCount))
      unsafe fields[count] = HTTP2FieldList.field(
        .identifier, value: scratch + Scratch.identifier, count: APNSIdentifier.textByteCount,
        isIndexed: !hasSentIdentifier)
      hasSentIdentifier = true
      count += 1
    }
    if unsafe overrides.expiration != nil || overrides.priority != nil || overrides.collapseIdentifier != nil {
      // The next request must load the template's own fields again, if some were replaced.
      if apply(overrides, to: template, count: &count) { loaded = nil }
    }
    return count
  }

  /// True if fields of the template were replaced.
  private func apply(_ overrides: RequestOverrides, to template: RequestTemplate, count: inout Int) -> Bool {
    var replaces = false
    func place(_ index: Int?) -> Int {
      if let index {
        replaces = true
        return index
      }
      count += 1
      return count - 1
    }
    if let expiration = overrides.expiration {
      let isIndexed = expirations.isIndexed(expiration)
      let digits = unsafe HTTP2Decimal.write(expiration, into: scratch + Scratch.expiration)
      unsafe fields[place(template.expirationIndex)] = HTTP2FieldList.field(
        .expiration, value: scratch + Scratch.expiration, count: digits, isIndexed: isIndexed)
    }
    if let priority = overrides.priority {
      let digits = unsafe HTTP2Decimal.write(UInt32(priority), into: scratch + Scratch.priority)
      unsafe fields[place(template.priorityIndex)] = HTTP2FieldList.field(
        .priority, value: scratch + Scratch.priority, count: digits, isIndexed: true)
    }
    if let collapse = unsafe overrides.collapseIdentifier, let source = collapse.baseAddress {
      precondition(
        collapse.count <= ProviderHeaders.collapseIdentifierByteCountLimit, "a collapse identifier that was not checked"
      )
      unsafe UnsafeMutableRawPointer(scratch + Scratch.collapse).copyMemory(from: source, byteCount: collapse.count)
      unsafe fields[place(template.collapseIndex)] = HTTP2FieldList.field(
        .collapse, value: scratch + Scratch.collapse, count: collapse.count, isIndexed: false)
    }
    return replaces
  }
}
