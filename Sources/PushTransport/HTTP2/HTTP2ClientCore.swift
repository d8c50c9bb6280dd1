package import PushWire

/// The state of a client session. Each event is a method: what follows for the peer is appended to
/// the output, what follows for the caller becomes an event.
@safe
package struct HTTP2ClientCore: ~Copyable {
  let limits: HTTP2Limits
  private let streamLimitOfOurs: Int
  private let buffers: LoopBuffers

  // MARK: What is sent

  var streams = HTTP2ClientStreams()
  private var requests = HTTP2RequestWriter()
  /// Bytes that wait for ``output(limit:)``.
  private var waiting: HTTP2Output?
  /// Requests of this stream and above are among them.
  private var firstUnsent = 1
  /// Streams with bodies that a window holds back, in their order.
  private var blocked: [Int32] = []
  /// A window has grown, or the output's limit has cut a body.
  private var mayContinue = false
  /// What the peer's window of the connection permits.
  private var window = HTTP2Frame.window
  /// Answers to the peer's frames that wait for ``output(limit:)``.
  private var waitingAnswerCount = 0

  // The peer's settings.
  private var hasSettings = false
  private var streamLimitOfPeer = Int.max
  private var initialWindow = HTTP2Frame.window
  private var largestPayload = HTTP2Frame.payloadByteCount
  /// SETTINGS of ours without an acknowledgement.
  var unacknowledgedSettingsCount = 1

  // MARK: What arrives

  var decoder = HPACKDecoder()
  /// The beginning of a frame.
  var partial: [UInt8] = []
  /// A header block whose end is to come in CONTINUATION frames.
  var block: [UInt8] = []
  var blockOwner: (streamID: Int32, endsStream: Bool)?
  var hasFrame = false
  /// Bytes of bodies that no WINDOW_UPDATE of the connection has given back.
  var unreturnedByteCount = 0
  /// Frames that brought nothing since the last response.
  private var idleFrameCount = 0
  /// Buffers for bodies, each of `limits.bodyByteCount`.
  private var freeBodies: [UnsafeMutableRawPointer] = unsafe []
  var replies: [Int32: HTTP2Reply] = [:]

  // MARK: What the caller sees

  private var events: [HTTP2ClientEvent] = []
  private var nextEvent = 0
  /// The body of the event that was taken last.
  private var lentBody: UnsafeMutableRawPointer?
  private var areSettingsTold = true
  private var isGoAwayTold = true
  private(set) var goAway: HTTP2GoAway?
  /// The ping without an answer.
  private var ping: UInt64?
  private(set) var failure: HTTP2Failure?
  private(set) var isClosing = false

  /// A peer that makes more answers wait than this floods us.
  private static let waitingAnswerLimit = 1000
  /// So many frames that bring nothing are a flood, between two responses.
  private static let idleFrameLimit = 10_000
  private static let freeBodyLimit = 64

  init(limits: HTTP2Limits, streamLimit: Int, buffers: LoopBuffers) {
    (self.limits, self.buffers) = (limits, buffers)
    streamLimitOfOurs = streamLimit
    events.reserveCapacity(4)
    let output = output
    let preface = HTTP2Frame.preface
    unsafe output.append(preface.utf8Start, count: preface.utf8CodeUnitCount)
    let settings = [
      (HTTP2Frame.Setting.enablePush, UInt32(0)),
      (HTTP2Frame.Setting.headerListSize, UInt32(clamping: limits.headerByteCount)),
    ]
    let place = unsafe frame(HTTP2Frame.Kind.settings, streamID: 0, byteCount: 6 * settings.count)
    for (index, setting) in settings.enumerated() {
      unsafe place.storeBytes(of: setting.0.bigEndian, toByteOffset: 6 * index, as: UInt16.self)
      unsafe place.storeBytes(of: setting.1.bigEndian, toByteOffset: 6 * index + 2, as: UInt32.self)
    }
  }

  deinit {
    unsafe streams.forEach { stream in
      unsafe stream.pointee.template?.release()
      unsafe stream.pointee.receivedBody?.deallocate()
    }
    for index in nextEvent..<events.count {
      if case .response(let response) = events[index] {
        unsafe response.body.baseAddress.map { unsafe UnsafeMutableRawPointer(mutating: $0) }?.deallocate()
      }
    }
    unsafe lentBody?.deallocate()
    unsafe freeBodies.forEach { unsafe $0.deallocate() }
  }

  // MARK: State

  var streamLimit: Int { hasSettings ? min(streamLimitOfPeer, streamLimitOfOurs) : min(1, streamLimitOfOurs) }

  var acceptsRequests: Bool { failure == nil && goAway == nil && !isClosing && streams.hasNumbers }

  var isFinished: Bool {
    (waiting?.count ?? 0) == 0 && (failure != nil || isClosing || goAway != nil && streams.count == 0)
  }

  func isSent(_ streamID: Int32) -> Bool { Int(streamID) < firstUnsent }

  /// The peer has broken a rule: the connection ends with this code.
  mutating func fail(_ code: HTTP2ErrorCode, _ reason: String) {
    guard failure == nil else { return }
    failure = HTTP2Failure(goAway: code, debugData: reason)
    sendGoAway(code, reason)
  }

  /// A frame that brings nothing. Any number of them would cost the peer nothing.
  mutating func broughtNothing() {
    idleFrameCount += 1
    if idleFrameCount > Self.idleFrameLimit { fail(.enhanceYourCalm, "too many frames that bring nothing") }
  }

  // MARK: Requests

  mutating func setAuthorization(_ value: String?) { requests.setAuthorization(value) }

  /// Submits one request.
  ///
  /// - Parameters:
  ///   - token: of the device; ignored if the template has a path of its own.
  ///   - identifier: the `apns-id`; nil: the service makes one.
  ///   - tag: returned with the event that ends the stream.
  ///   - keepsEverything: of the reply; see ``HTTP2ClientSession/takeReply(_:)``.
  package mutating func submit(
    _ template: RequestTemplate, token: UnsafeRawBufferPointer, identifier: APNSIdentifier?,
    overrides: borrowing RequestOverrides = RequestOverrides(), tag: UInt64, keepsEverything: Bool = false
  ) -> HTTP2ClientSession.Submission {
    guard acceptsRequests else { return .finished }
    guard streams.count < streamLimit else { return .full }
    idleFrameCount = 0
    let stream = unsafe streams.open()
    let streamID = unsafe stream.pointee.streamID
    unsafe stream.pointee.tag = tag
    unsafe stream.pointee.keepsEverything = keepsEverything
    unsafe stream.pointee.window = initialWindow
    let payload = unsafe overrides.payload ?? template.payload
    let output = output
    let start = output.count
    _ = unsafe output.room(for: HTTP2Frame.headerByteCount)
    output.advance(HTTP2Frame.headerByteCount)
    unsafe requests.write(template, token: token, identifier: identifier, overrides: overrides, to: output)
    finishHeaders(from: start, streamID, endsStream: payload.count == 0, output)
    guard payload.count > 0 else { return .submitted(streamID: streamID) }
    if blocked.isEmpty, payload.count <= min(window, initialWindow, largestPayload), let base = payload.baseAddress {
      let place = unsafe output.frame(
        HTTP2Frame.Kind.data, flags: HTTP2Frame.Flags.endStream, streamID: streamID, byteCount: payload.count)
      unsafe place.copyMemory(from: base, byteCount: payload.count)
      window -= payload.count
      unsafe stream.pointee.window -= payload.count
    } else {
      unsafe stream.pointee.body = payload.baseAddress
      unsafe stream.pointee.bodyLeft = payload.count
      if unsafe overrides.payload == nil { unsafe stream.pointee.template = unsafe Unmanaged.passRetained(template) }
      blocked.append(streamID)
      mayContinue = true
    }
    return .submitted(streamID: streamID)
  }

  /// Writes the header of the frame whose block is complete. A block that is too long for one frame
  /// continues in others.
  private func finishHeaders(from start: Int, _ streamID: Int32, endsStream: Bool, _ output: HTTP2Output) {
    let byteCount = output.count - start - HTTP2Frame.headerByteCount
    let end = endsStream ? HTTP2Frame.Flags.endStream : 0
    guard let base = unsafe output.base else { return }
    guard byteCount > largestPayload else {
      return unsafe HTTP2Frame.write(
        HTTP2Frame.Kind.headers, flags: HTTP2Frame.Flags.endHeaders | end, streamID: streamID, byteCount: byteCount,
        to: base + start)
    }
    let block = unsafe Array(
      UnsafeRawBufferPointer(start: base + start + HTTP2Frame.headerByteCount, count: byteCount))
    output.truncate(to: start)
    for place in stride(from: 0, to: byteCount, by: largestPayload) {
      let piece = block[place..<min(byteCount, place + largestPayload)]
      let isLast = piece.endIndex == byteCount
      let header = unsafe output.room(for: HTTP2Frame.headerByteCount)
      unsafe HTTP2Frame.write(
        place == 0 ? HTTP2Frame.Kind.headers : HTTP2Frame.Kind.continuation,
        flags: (isLast ? HTTP2Frame.Flags.endHeaders : 0) | (place == 0 ? end : 0), streamID: streamID,
        byteCount: piece.count, to: header)
      output.advance(HTTP2Frame.headerByteCount)
      output.append(Array(piece))
    }
  }

  mutating func cancel(_ streamID: Int32) {
    guard let stream = unsafe streams.find(streamID) else { return }
    unsafe reset(stream, .cancel)
  }

  /// Ends a stream from our side.
  mutating func reset(_ stream: UnsafeMutablePointer<HTTP2ClientStream>, _ code: HTTP2ErrorCode) {
    sendReset(unsafe stream.pointee.streamID, code)
    unsafe end(stream, code, isUnprocessed: false)
  }

  mutating func sendPing(_ number: UInt64) {
    ping = number
    unsafe frame(HTTP2Frame.Kind.ping, streamID: 0, byteCount: 8).storeBytes(of: number.bigEndian, as: UInt64.self)
  }

  mutating func close() {
    guard failure == nil, !isClosing else { return }
    isClosing = true
    sendGoAway(.noError, "")
  }

  // MARK: Output

  private var output: HTTP2Output {
    mutating get {
      if let waiting { return waiting }
      let output = buffers.takeOutput()
      waiting = output
      return output
    }
  }

  /// Appends a frame's header and makes room for its payload, which the caller writes.
  @discardableResult
  private mutating func frame(
    _ kind: UInt8, flags: UInt8 = 0, streamID: Int32, byteCount: Int
  ) -> UnsafeMutableRawPointer {
    unsafe output.frame(kind, flags: flags, streamID: streamID, byteCount: byteCount)
  }

  private mutating func sendReset(_ streamID: Int32, _ code: HTTP2ErrorCode) {
    unsafe frame(HTTP2Frame.Kind.reset, streamID: streamID, byteCount: 4).storeBytes(
      of: code.rawValue.bigEndian, as: UInt32.self)
  }

  private mutating func sendGoAway(_ code: HTTP2ErrorCode, _ reason: String) {
    let text = Array(reason.utf8)
    let place = unsafe frame(HTTP2Frame.Kind.goAway, streamID: 0, byteCount: 8 + text.count)
    // The peer opens no streams, so 0 is the last one.
    unsafe place.storeBytes(of: 0, as: UInt32.self)
    unsafe place.storeBytes(of: code.rawValue.bigEndian, toByteOffset: 4, as: UInt32.self)
    for (index, byte) in text.enumerated() {
      unsafe place.storeBytes(of: byte, toByteOffset: 8 + index, as: UInt8.self)
    }
  }

  mutating func sendWindowUpdate(_ streamID: Int32, _ byteCount: Int) {
    unsafe frame(HTTP2Frame.Kind.windowUpdate, streamID: streamID, byteCount: 4).storeBytes(
      of: UInt32(byteCount).bigEndian, as: UInt32.self)
  }

  /// Counts an answer to a frame of the peer. False: too many wait.
  private mutating func mayAnswer() -> Bool {
    waitingAnswerCount += 1
    guard waitingAnswerCount > Self.waitingAnswerLimit else { return true }
    fail(.enhanceYourCalm, "too many SETTINGS and PINGs that wait for an answer")
    return false
  }

  mutating func output(limit: Int) -> UnsafeRawBufferPointer {
    if mayContinue, failure == nil { sendBodies(limit) }
    guard let output = waiting, output.count > 0 else { return unsafe UnsafeRawBufferPointer(start: nil, count: 0) }
    waiting = nil
    waitingAnswerCount = 0
    firstUnsent = streams.next
    // The bytes stay until another session takes the buffer.
    buffers.give(output)
    return unsafe output.bytes
  }

  /// Sends what the windows permit of the bodies that wait.
  private mutating func sendBodies(_ limit: Int) {
    mayContinue = false
    var isFirstLeft = 0
    for index in blocked.indices {
      let streamID = blocked[index]
      guard let stream = unsafe streams.find(streamID), unsafe stream.pointee.bodyLeft > 0 else { continue }
      if window > 0 { unsafe sendBody(stream, limit) }
      guard unsafe stream.pointee.bodyLeft > 0 else { continue }
      blocked[isFirstLeft] = streamID
      isFirstLeft += 1
    }
    blocked.removeSubrange(isFirstLeft...)
  }

  private mutating func sendBody(_ stream: UnsafeMutablePointer<HTTP2ClientStream>, _ limit: Int) {
    while let body = unsafe stream.pointee.body {
      let count = unsafe min(stream.pointee.bodyLeft, window, stream.pointee.window, largestPayload)
      guard count > 0 else { return }
      guard (waiting?.count ?? 0) < limit else {
        mayContinue = true
        return
      }
      let isLast = unsafe count == stream.pointee.bodyLeft
      let place = unsafe frame(
        HTTP2Frame.Kind.data, flags: isLast ? HTTP2Frame.Flags.endStream : 0, streamID: stream.pointee.streamID,
        byteCount: count)
      unsafe place.copyMemory(from: body, byteCount: count)
      window -= count
      unsafe stream.pointee.window -= count
      unsafe stream.pointee.bodyLeft -= count
      unsafe stream.pointee.body = isLast ? nil : body + count
    }
    unsafe stream.pointee.template?.release()
    unsafe stream.pointee.template = nil
  }

  // MARK: Settings and windows of the peer

  mutating func received(setting: UInt16, _ value: UInt32) {
    switch setting {
    case HTTP2Frame.Setting.headerTableSize: requests.setTableLimit(Int(value))
    case HTTP2Frame.Setting.enablePush:
      if value != 0 { fail(.protocolError, "SETTINGS: a server may not enable push") }
    case HTTP2Frame.Setting.streamLimit: streamLimitOfPeer = Int(value)
    case HTTP2Frame.Setting.initialWindow:
      guard value <= HTTP2Frame.largestWindow else {
        return fail(.flowControlError, "SETTINGS: the initial window is too large")
      }
      changeWindows(by: Int(value) - initialWindow)
      initialWindow = Int(value)
    case HTTP2Frame.Setting.frameSize:
      guard (HTTP2Frame.payloadByteCount...HTTP2Frame.largestPayloadByteCount).contains(Int(value)) else {
        return fail(.protocolError, "SETTINGS: no such frame size is allowed")
      }
      largestPayload = Int(value)
    default: break
    }
  }

  private mutating func changeWindows(by difference: Int) {
    var isTooLarge = false
    unsafe streams.forEach { stream in
      unsafe stream.pointee.window += difference
      if unsafe stream.pointee.window > HTTP2Frame.largestWindow { isTooLarge = true }
    }
    mayContinue = true
    if isTooLarge { fail(.flowControlError, "SETTINGS: the initial window makes a stream's window too large") }
  }

  mutating func settingsEnded() {
    hasSettings = true
    areSettingsTold = false
    guard failure == nil, mayAnswer() else { return }
    unsafe frame(
      HTTP2Frame.Kind.settings, flags: HTTP2Frame.Flags.acknowledgement, streamID: 0, byteCount: 0)
  }

  mutating func windowGrew(_ streamID: Int32, by increment: Int) {
    mayContinue = true
    if streamID == 0 {
      window += increment
      if window > HTTP2Frame.largestWindow { fail(.flowControlError, "WINDOW_UPDATE: the window is too large") }
    } else if let stream = unsafe streams.find(streamID) {
      unsafe stream.pointee.window += increment
      if unsafe stream.pointee.window > HTTP2Frame.largestWindow { unsafe reset(stream, .flowControlError) }
    }
  }

  // MARK: Ends

  /// The peer has answered the last ping, or another one: a peer could send any number of those.
  mutating func pongArrived(_ number: UInt64) {
    guard number == ping else { return broughtNothing() }
    ping = nil
    idleFrameCount = 0
    events.append(.pong(number))
  }

  mutating func pingArrived(_ number: UInt64) {
    broughtNothing()
    guard failure == nil, mayAnswer() else { return }
    unsafe frame(
      HTTP2Frame.Kind.ping, flags: HTTP2Frame.Flags.acknowledgement, streamID: 0, byteCount: 8
    ).storeBytes(of: number.bigEndian, as: UInt64.self)
  }

  /// A peer may send any number of GOAWAYs, so those of one read become one event.
  mutating func received(_ goAway: HTTP2GoAway) {
    self.goAway = goAway
    if isGoAwayTold {
      isGoAwayTold = false
      events.append(.goAway)
    }
    var above: [UnsafeMutablePointer<HTTP2ClientStream>] = unsafe []
    unsafe streams.forEach { stream in
      if unsafe stream.pointee.streamID > goAway.lastStreamID { unsafe above.append(stream) }
    }
    for index in unsafe above.indices { unsafe end(above[index], .refusedStream, isUnprocessed: true) }
  }

  /// A stream ends without a complete response.
  mutating func end(_ stream: UnsafeMutablePointer<HTTP2ClientStream>, _ code: HTTP2ErrorCode, isUnprocessed: Bool) {
    idleFrameCount = 0
    if unsafe stream.pointee.keepsEverything { unsafe replies[stream.pointee.streamID] = nil }
    unsafe events.append(
      .ended(
        HTTP2StreamEnd(
          streamID: stream.pointee.streamID, tag: stream.pointee.tag, errorCode: code, isUnprocessed: isUnprocessed,
          status: stream.pointee.status)))
    if let body = unsafe stream.pointee.receivedBody { unsafe giveBack(body) }
    unsafe release(stream)
  }

  /// The peer has sent everything on this stream.
  mutating func answered(_ stream: UnsafeMutablePointer<HTTP2ClientStream>) {
    if let expected = unsafe stream.pointee.contentByteCount, unsafe stream.pointee.status != 304,
      unsafe expected != stream.pointee.receivedByteCount
    {
      return unsafe reset(stream, .protocolError)
    }
    idleFrameCount = 0
    let body = unsafe stream.pointee.receivedBody
    if unsafe stream.pointee.keepsEverything {
      unsafe replies[stream.pointee.streamID, default: HTTP2Reply(status: 0, fields: [], body: [])].status =
        stream.pointee.status
    }
    unsafe events.append(
      .response(
        HTTP2Response(
          streamID: stream.pointee.streamID, tag: stream.pointee.tag, status: stream.pointee.status,
          apnsID: stream.pointee.apnsID, retryAfter: stream.pointee.retryAfter, date: stream.pointee.date,
          body: UnsafeRawBufferPointer(start: body, count: body == nil ? 0 : stream.pointee.keptByteCount),
          isBodyCut: stream.pointee.isBodyCut)))
    // The response came before the end of the request. The service does not need the rest of the
    // body, and its memory may no longer be read.
    if unsafe stream.pointee.bodyLeft > 0 { sendReset(unsafe stream.pointee.streamID, .cancel) }
    unsafe release(stream)
  }

  private mutating func release(_ stream: UnsafeMutablePointer<HTTP2ClientStream>) {
    unsafe stream.pointee.template?.release()
    unsafe streams.close(stream)
  }

  // MARK: Bodies

  /// Memory for the beginning of a response's body.
  mutating func takeBody() -> UnsafeMutableRawPointer {
    unsafe freeBodies.popLast() ?? .allocate(byteCount: limits.bodyByteCount, alignment: 16)
  }

  private mutating func giveBack(_ body: UnsafeMutableRawPointer) {
    if unsafe freeBodies.count < Self.freeBodyLimit { unsafe freeBodies.append(body) } else { unsafe body.deallocate() }
  }

  // MARK: Events

  mutating func takeEvent() -> HTTP2ClientEvent? {
    if let body = unsafe lentBody {
      unsafe giveBack(body)
      unsafe lentBody = nil
    }
    if !areSettingsTold {
      areSettingsTold = true
      return .settings
    }
    guard nextEvent < events.count else {
      events.removeAll(keepingCapacity: true)
      nextEvent = 0
      return nil
    }
    let event = events[nextEvent]
    nextEvent += 1
    if case .goAway = event { isGoAwayTold = true }
    if case .response(let response) = event, let body = unsafe response.body.baseAddress {
      unsafe lentBody = unsafe UnsafeMutableRawPointer(mutating: body)
    }
    return event
  }

  mutating func takeAccepted(_ body: (_ tag: UInt64) -> Void) {
    guard areSettingsTold else { return }
    while nextEvent < events.count, case .response(let response) = events[nextEvent], response.status == 200,
      unsafe response.body.isEmpty
    {
      nextEvent += 1
      body(response.tag)
    }
  }
}
