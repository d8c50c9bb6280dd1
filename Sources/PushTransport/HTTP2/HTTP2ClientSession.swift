internal import CNGHTTP2
package import PushWire

/// The client's side of one HTTP/2 connection, without a socket or a clock: bytes in, events out; requests in, bytes out.
///
/// Used by one thread at a time, in practice by the event loop of its connection. After each ``receive(_:)`` take the events, then ``output(limit:)`` until it
/// is empty. In a steady state a request allocates nothing here; what nghttp2 allocates comes from
/// lists that the event loop keeps.
@safe
package final class HTTP2ClientSession {
  package struct Options: Sendable {
    /// Streams open at once, whatever the peer would allow.
    package var streamLimit = 1000
    /// What a peer may make us keep: error bodies are below 100 bytes.
    package var limits: HTTP2Limits = {
      var limits = HTTP2Limits()
      limits.bodyByteCount = 1024
      return limits
    }()

    package init() {}
  }

  package enum Submission: Hashable, Sendable {
    case submitted(streamID: Int32)
    /// As many streams are open as the peer, or we, allow at present.
    case full
    /// No further request can go over this connection: it is going away, has failed, or has used up its stream numbers.
    case finished
  }

  private let core: UnsafeMutablePointer<HTTP2ClientCore>
  private let session: OpaquePointer
  private let memory: HTTP2Memory
  private let share: UnsafeMutablePointer<carillon_h2_share>
  private let streamLimitOfOurs: Int

  // For one request at a time.
  private let fields: UnsafeMutablePointer<nghttp2_nv>
  private let scratch: UnsafeMutablePointer<UInt8>
  private var loaded: RequestTemplate?
  private var authorization: [HTTP2Field] = []
  private var authorizationFields = HTTP2FieldList([])
  private var commonCount = 0
  /// The first apns-id of a connection is indexed, so that later ones need not spell the name (HTTP2ProviderAPI.md, section 1).
  private var hasSentIdentifier = false

  /// - Parameter buffers: those of the connection's event loop, if it has any; otherwise the session's own.
  /// - Throws: nghttp2 is out of memory.
  package init(options: Options = Options(), buffers: LoopBuffers = LoopBuffers()) throws(HTTP2Failure) {
    let memory = buffers.http2Memory
    let core = UnsafeMutablePointer<HTTP2ClientCore>.allocate(capacity: 1)
    unsafe core.initialize(to: HTTP2ClientCore(limits: options.limits, output: buffers.http2Output))
    let share = unsafe carillon_h2_share_new(memory.lists)
    guard let share = unsafe share, let session = unsafe HTTP2ClientCallbacks.makeSession(core, share) else {
      unsafe carillon_h2_share_free(share)
      unsafe core.pointee.deallocate()
      unsafe core.deinitialize(count: 1)
      unsafe core.deallocate()
      throw HTTP2Failure(errorCode: .internalError, description: "nghttp2 could not make a session")
    }
    self.memory = memory
    unsafe self.share = unsafe share
    unsafe self.core = unsafe core
    unsafe self.session = unsafe session
    streamLimitOfOurs = options.streamLimit
    unsafe fields = .allocate(capacity: RequestTemplate.fieldCountLimit)
    unsafe scratch = .allocate(capacity: Scratch.byteCount)
    let settings: [nghttp2_settings_entry] = [
      nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0),
      nghttp2_settings_entry(
        settings_id: Int32(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE.rawValue),
        value: UInt32(options.limits.headerByteCount)),
    ]
    _ = unsafe nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), settings, settings.count)
  }

  deinit {
    unsafe carillon_h2_session_end(session, share)
    unsafe core.pointee.deallocate()
    unsafe core.deinitialize(count: 1)
    unsafe core.deallocate()
    unsafe fields.deallocate()
    unsafe scratch.deallocate()
  }

  // MARK: How it stands

  /// Why nothing more can be done; nil as long as all is well.
  package var failure: HTTP2Failure? { unsafe core.pointee.failure }
  /// The last one that the peer has sent.
  package var goAway: HTTP2GoAway? { unsafe core.pointee.goAway }
  /// Requests submitted and not ended.
  package var openStreamCount: Int { unsafe core.pointee.streams.countInUse - core.pointee.abandonedCount }

  /// How many streams may be open now: what the peer's SETTINGS say at present, at most our own limit; 1 until they have come.
  package var streamLimit: Int {
    guard unsafe core.pointee.hasSettings else { return min(1, streamLimitOfOurs) }
    return min(
      Int(unsafe nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)),
      streamLimitOfOurs)
  }

  /// What the peer's SETTINGS say themselves; nil until they have come. 2^32 − 1 means no limit.
  package var peerStreamLimit: UInt32? {
    guard unsafe core.pointee.hasSettings else { return nil }
    return unsafe nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
  }

  /// How many requests ``submit(_:token:identifier:overrides:tag:)`` takes now.
  package var availableStreamCount: Int { acceptsRequests ? max(0, streamLimit - openStreamCount) : 0 }

  /// False once the connection is going away or has failed.
  package var acceptsRequests: Bool {
    unsafe core.pointee.failure == nil && core.pointee.goAway == nil && !core.pointee.isClosing
      && nghttp2_session_check_request_allowed(session) != 0
  }

  /// Nothing is under way in either direction, and nothing can be any more: the connection can be closed.
  package var isFinished: Bool {
    unsafe nghttp2_session_want_read(session) == 0 && nghttp2_session_want_write(session) == 0
  }

  /// How often nghttp2 has asked the system for memory, for all sessions with the same buffers: constant in a steady state.
  package var allocationCount: Int { memory.allocationCount }

  // MARK: Requests

  /// The value of `authorization` for the requests to come, such as `bearer eyJ…`; nil: none, since the certificate says who we are.
  package func setAuthorization(_ value: String?) {
    authorizationFields = HTTP2FieldList(value.map { [HTTP2Field("authorization", $0, isIndexed: false)] } ?? [])
    loaded = nil
  }

  /// Submits one request; its bytes come with the next ``output(limit:)``.
  ///
  /// - Parameters:
  ///   - token: of the device; not looked at if the template has a path of its own.
  ///   - identifier: the `apns-id`; nil leaves it to the service.
  ///   - tag: comes back with the event that ends the stream.
  package func submit(
    _ template: RequestTemplate, token: UnsafeRawBufferPointer, identifier: APNSIdentifier?,
    overrides: RequestOverrides = RequestOverrides(), tag: UInt64
  ) -> Submission {
    unsafe submit(
      template, token: token, identifier: identifier, overrides: overrides, tag: tag, keepsEverything: false)
  }

  /// Submits a request whose whole reply is kept for ``takeReply(_:)``, once its response has been told as an event.
  package func submit(_ template: RequestTemplate, tag: UInt64) -> Submission {
    unsafe submit(
      template, token: UnsafeRawBufferPointer(start: nil, count: 0), identifier: nil, overrides: RequestOverrides(),
      tag: tag, keepsEverything: true)
  }

  /// The reply of a stream whose response has been told; nil for any other, and for the second call.
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
      return .finished
    }
    unsafe stream.pointee.streamID = streamID
    return .submitted(streamID: streamID)
  }

  /// Gives a stream up: RST_STREAM with CANCEL. Its end is told as an event, unless it had its response already.
  package func cancel(_ streamID: Int32) {
    // RST_STREAM on a stream that was never opened would break the connection: nghttp2 sends one for a request that is cancelled twice before it is given out.
    guard let stream = unsafe core.pointee.streams.find(streamID), unsafe !stream.pointee.isCancelled,
      unsafe !stream.pointee.isAnswered
    else { return }
    unsafe stream.pointee.isCancelled = true
    _ = unsafe nghttp2_submit_rst_stream(
      session, UInt8(NGHTTP2_FLAG_NONE.rawValue), streamID, HTTP2ErrorCode.cancel.rawValue)
  }

  /// Sends a PING, whose answer is told as ``HTTP2ClientEvent/pong(_:)``. Only the last one that was sent is waited for.
  package func ping(_ number: UInt64) {
    unsafe core.pointee.ping = number
    var bytes = number.bigEndian
    unsafe withUnsafeBytes(of: &bytes) { bytes in
      _ = unsafe nghttp2_submit_ping(
        session, UInt8(NGHTTP2_FLAG_NONE.rawValue), bytes.baseAddress?.assumingMemoryBound(to: UInt8.self))
    }
  }

  /// Takes leave: GOAWAY without an error. Streams that are open end as refused by us; close the connection when the output has been sent.
  package func close() {
    unsafe core.pointee.isClosing = true
    _ = unsafe nghttp2_session_terminate_session(session, HTTP2ErrorCode.noError.rawValue)
  }

  /// Every request without an end, once the connection is gone: whether any of it was given out for sending, and its tag.
  ///
  /// Take the events first. What had not been given out is certainly unsent.
  package func forEachOpenRequest(_ body: (_ tag: UInt64, _ streamID: Int32, _ wasSent: Bool) -> Void) {
    unsafe core.pointee.streams.forEachInUse { stream in
      if unsafe !stream.pointee.isAnswered {
        unsafe body(stream.pointee.tag, stream.pointee.streamID, stream.pointee.isSent)
      }
    }
  }

  // MARK: Bytes and events

  /// Takes bytes from the peer in. What they mean comes as events; failing is one of the things that can come of them (``failure``).
  package func receive(_ bytes: UnsafeRawBufferPointer) {
    guard unsafe core.pointee.failure == nil, bytes.count > 0 else { return }
    let taken = unsafe nghttp2_session_mem_recv(
      session, bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), bytes.count)
    if taken < 0 { unsafe core.pointee.failure = HTTP2Failure(library: taken) }
    if unsafe core.pointee.goAway != nil { unsafe core.pointee.abandonUnsent() }
  }

  /// The next event, in the order in which things happened; nil when there is none.
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
    if case .goAway = event { unsafe core.pointee.isGoAwayTold = true }
    if case .response(let response) = event, let body = unsafe response.body.baseAddress {
      unsafe core.pointee.lentBody = unsafe UnsafeMutableRawPointer(mutating: body)
    }
    return event
  }

  /// The next piece of what there is to send, valid until the next call to any session with the same buffers; empty when there is nothing.
  ///
  /// - Parameter limit: a piece ends with the first frame that reaches it.
  package func output(limit: Int = 256 * 1024) -> UnsafeRawBufferPointer {
    unsafe core.pointee.output.clear()
    unsafe core.pointee.outputLimit = limit
    while unsafe core.pointee.output.count < limit {
      var bytes: UnsafePointer<UInt8>?
      let count = unsafe nghttp2_session_mem_send(session, &bytes)
      guard count > 0, let bytes = unsafe bytes else {
        // Zero: either there is nothing more, or DATA frames alone have reached the limit.
        if count < 0, unsafe core.pointee.failure == nil { unsafe core.pointee.failure = HTTP2Failure(library: count) }
        break
      }
      unsafe core.pointee.output.append(bytes, count: count)
    }
    return unsafe core.pointee.output.bytes
  }

  // MARK: Header lists

  private enum Scratch {
    // "/3/device/" and 100 bytes of token in hexadecimal.
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
      // Copied by nghttp2: the next request has another one in the same place.
      unsafe fields[RequestTemplate.pathIndex] = HTTP2FieldList.field(
        .path, value: scratch, count: Scratch.prefix.utf8CodeUnitCount, isIndexed: false)
    }
  }

  /// Completes the list for one request and returns its length.
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
      apply(overrides, to: template, count: &count)
      // The template's own fields have to be there for the next request.
      loaded = nil
    }
    return count
  }

  private func apply(_ overrides: RequestOverrides, to template: RequestTemplate, count: inout Int) {
    func place(_ index: Int?) -> Int {
      if let index { return index }
      count += 1
      return count - 1
    }
    if let expiration = overrides.expiration {
      let digits = unsafe HTTP2Decimal.write(expiration, into: scratch + Scratch.expiration)
      unsafe fields[place(template.expirationIndex)] = HTTP2FieldList.field(
        .expiration, value: scratch + Scratch.expiration, count: digits, isIndexed: false)
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
  }
}
