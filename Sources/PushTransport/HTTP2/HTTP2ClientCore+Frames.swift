internal import PushWire

extension HTTP2ClientCore {
  // MARK: Bytes

  /// Memory for the beginning of a frame that is kept between reads.
  private static let partialByteCountKept = 2048

  mutating func receive(_ bytes: Span<UInt8>) {
    guard failure == nil, !isClosing else { return }
    var offset = 0
    if !partial.isEmpty {
      offset = completePartial(bytes)
      guard partial.isEmpty else { return }
    }
    while failure == nil, bytes.count - offset >= HTTP2Frame.headerByteCount {
      let header = HTTP2Frame.Header(bytes, at: offset)
      guard check(header) else { return }
      let end = offset + HTTP2Frame.headerByteCount + header.byteCount
      guard end <= bytes.count else { break }
      process(header, bytes.extracting(offset + HTTP2Frame.headerByteCount..<end))
      offset = end
    }
    if failure == nil, offset < bytes.count { partial.append(bytes.extracting(offset..<bytes.count)) }
  }

  /// Continues the frame that the last read has cut. Returns how many bytes it took.
  private mutating func completePartial(_ bytes: Span<UInt8>) -> Int {
    var frame: [UInt8] = []
    swap(&frame, &partial)
    var offset = take(bytes, from: 0, upTo: HTTP2Frame.headerByteCount, into: &frame)
    guard frame.count >= HTTP2Frame.headerByteCount else {
      partial = frame
      return offset
    }
    let header = HTTP2Frame.Header(frame.span, at: 0)
    guard check(header) else { return offset }
    let byteCount = HTTP2Frame.headerByteCount + header.byteCount
    offset += take(bytes, from: offset, upTo: byteCount, into: &frame)
    guard frame.count >= byteCount else {
      partial = frame
      return offset
    }
    process(header, frame.span.extracting(HTTP2Frame.headerByteCount..<byteCount))
    guard frame.capacity <= Self.partialByteCountKept else { return offset }
    frame.removeAll(keepingCapacity: true)
    partial = frame
    return offset
  }

  /// Takes what a frame lacks of so many bytes, or all there is. Returns how many it took.
  private func take(_ bytes: Span<UInt8>, from offset: Int, upTo count: Int, into frame: inout [UInt8]) -> Int {
    let missing = min(count - frame.count, bytes.count - offset)
    guard missing > 0 else { return 0 }
    frame.append(bytes.extracting(offset..<offset + missing))
    return missing
  }

  // MARK: Frames

  /// What a frame's header must not be, whatever its payload. False: the connection has failed.
  @inline(__always)
  private mutating func check(_ header: HTTP2Frame.Header) -> Bool {
    if !hasFrame, header.kind != HTTP2Frame.Kind.settings || header.has(HTTP2Frame.Flags.acknowledgement) {
      fail(.protocolError, "the first frame is not SETTINGS")
    } else if header.byteCount > HTTP2Frame.payloadByteCount {
      fail(.frameSizeError, "a frame of \(header.byteCount) bytes")
    } else if let blockOwner,
      header.kind != HTTP2Frame.Kind.continuation || header.streamID != blockOwner.streamID
    {
      fail(.protocolError, "another frame within a header block")
    }
    return failure == nil
  }

  private mutating func process(_ header: HTTP2Frame.Header, _ payload: Span<UInt8>) {
    hasFrame = true
    switch header.kind {
    case HTTP2Frame.Kind.headers: headers(header, payload)
    case HTTP2Frame.Kind.data: data(header, payload)
    case HTTP2Frame.Kind.windowUpdate: windowUpdate(header, payload)
    case HTTP2Frame.Kind.continuation: continuation(header, payload)
    case HTTP2Frame.Kind.reset: reset(header, payload)
    case HTTP2Frame.Kind.settings: settings(header, payload)
    case HTTP2Frame.Kind.ping: ping(header, payload)
    case HTTP2Frame.Kind.goAway: goAway(header, payload)
    case HTTP2Frame.Kind.priority:
      guard header.streamID != 0 else { return fail(.protocolError, "PRIORITY on stream 0") }
      guard payload.count == 5 else { return fail(.frameSizeError, "PRIORITY of a wrong size") }
      broughtNothing()
    case HTTP2Frame.Kind.pushPromise: fail(.protocolError, "PUSH_PROMISE, although push is disabled")
    default: broughtNothing()
    }
  }

  /// Where the payload without its padding is; nil: the connection has failed.
  @inline(__always)
  private mutating func unpadded(_ header: HTTP2Frame.Header, _ payload: Span<UInt8>) -> Range<Int>? {
    guard header.has(HTTP2Frame.Flags.padded) else { return payload.indices }
    guard !payload.isEmpty, Int(payload[0]) < payload.count else {
      fail(.protocolError, "more padding than payload")
      return nil
    }
    return 1..<payload.count - Int(payload[0])
  }

  private mutating func headers(_ header: HTTP2Frame.Header, _ payload: Span<UInt8>) {
    guard !streams.isIdle(header.streamID), header.streamID != 0 else {
      return fail(.protocolError, "HEADERS on a stream that was never opened")
    }
    guard var range = unpadded(header, payload) else { return }
    if header.has(HTTP2Frame.Flags.priority) {
      guard range.count >= 5 else { return fail(.frameSizeError, "HEADERS without its priority") }
      range = range.lowerBound + 5..<range.upperBound
    }
    let endsStream = header.has(HTTP2Frame.Flags.endStream)
    if header.has(HTTP2Frame.Flags.endHeaders) {
      headerBlock(payload.extracting(range), streamID: header.streamID, endsStream: endsStream)
    } else {
      blockOwner = (header.streamID, endsStream)
      block.append(payload.extracting(range))
    }
  }

  private mutating func continuation(_ header: HTTP2Frame.Header, _ payload: Span<UInt8>) {
    guard let owner = blockOwner else { return fail(.protocolError, "CONTINUATION without a header block") }
    if payload.count == 0 { broughtNothing() }
    // A list of the announced size may be coded badly, but not that badly.
    guard block.count + payload.count <= 4 * limits.headerByteCount else {
      return fail(.enhanceYourCalm, "a header block of more than \(4 * limits.headerByteCount) bytes")
    }
    block.append(payload)
    guard header.has(HTTP2Frame.Flags.endHeaders) else { return }
    blockOwner = nil
    var whole: [UInt8] = []
    swap(&whole, &block)
    headerBlock(whole.span, streamID: owner.streamID, endsStream: owner.endsStream)
  }

  private mutating func data(_ header: HTTP2Frame.Header, _ payload: Span<UInt8>) {
    guard !streams.isIdle(header.streamID), header.streamID != 0 else {
      return fail(.protocolError, "DATA on a stream that was never opened")
    }
    // Padding counts, too, and what belongs to a stream that we have ended.
    unreturnedByteCount += payload.count
    guard unreturnedByteCount <= HTTP2Frame.window else {
      return fail(.flowControlError, "DATA beyond the connection's window")
    }
    if unreturnedByteCount > HTTP2Frame.window / 2 {
      sendWindowUpdate(0, unreturnedByteCount)
      unreturnedByteCount = 0
    }
    guard let range = unpadded(header, payload) else { return }
    let endsStream = header.has(HTTP2Frame.Flags.endStream)
    if range.isEmpty, !endsStream { broughtNothing() }
    guard let stream = unsafe streams.find(header.streamID) else { return broughtNothing() }
    guard unsafe stream.pointee.hasFinalHeaders else { return unsafe reset(stream, .protocolError) }
    unsafe stream.pointee.unreturnedByteCount += payload.count
    guard unsafe stream.pointee.unreturnedByteCount <= HTTP2Frame.window else {
      return unsafe reset(stream, .flowControlError)
    }
    unsafe keep(payload.extracting(range), of: stream)
    if endsStream { return unsafe answered(stream) }
    if unsafe stream.pointee.unreturnedByteCount > HTTP2Frame.window / 2 {
      unsafe sendWindowUpdate(header.streamID, stream.pointee.unreturnedByteCount)
      unsafe stream.pointee.unreturnedByteCount = 0
    }
  }

  private mutating func reset(_ header: HTTP2Frame.Header, _ payload: Span<UInt8>) {
    guard payload.count == 4 else { return fail(.frameSizeError, "RST_STREAM of a wrong size") }
    guard !streams.isIdle(header.streamID), header.streamID != 0 else {
      return fail(.protocolError, "RST_STREAM on a stream that was never opened")
    }
    guard let stream = unsafe streams.find(header.streamID) else { return broughtNothing() }
    let code = HTTP2ErrorCode(rawValue: payload.word(at: 0))
    unsafe end(stream, code, isUnprocessed: code == .refusedStream || !isSent(header.streamID))
  }

  private mutating func settings(_ header: HTTP2Frame.Header, _ payload: Span<UInt8>) {
    guard header.streamID == 0 else { return fail(.protocolError, "SETTINGS on a stream") }
    if header.has(HTTP2Frame.Flags.acknowledgement) {
      guard payload.count == 0 else { return fail(.frameSizeError, "an acknowledgement of SETTINGS with a payload") }
      guard unacknowledgedSettingsCount > 0 else {
        return fail(.protocolError, "an acknowledgement without SETTINGS")
      }
      unacknowledgedSettingsCount -= 1
      return
    }
    guard payload.count % 6 == 0 else { return fail(.frameSizeError, "SETTINGS of a wrong size") }
    broughtNothing()
    for place in stride(from: 0, to: payload.count, by: 6) where failure == nil {
      received(setting: payload.half(at: place), payload.word(at: place + 2))
    }
    settingsEnded()
  }

  private mutating func ping(_ header: HTTP2Frame.Header, _ payload: Span<UInt8>) {
    guard header.streamID == 0 else { return fail(.protocolError, "PING on a stream") }
    guard payload.count == 8 else { return fail(.frameSizeError, "PING of a wrong size") }
    let number = UInt64(payload.word(at: 0)) << 32 | UInt64(payload.word(at: 4))
    if header.has(HTTP2Frame.Flags.acknowledgement) { pongArrived(number) } else { pingArrived(number) }
  }

  private mutating func goAway(_ header: HTTP2Frame.Header, _ payload: Span<UInt8>) {
    guard header.streamID == 0 else { return fail(.protocolError, "GOAWAY on a stream") }
    guard payload.count >= 8 else { return fail(.frameSizeError, "GOAWAY of a wrong size") }
    let last = Int32(bitPattern: payload.word(at: 0) & 0x7FFF_FFFF)
    guard last <= goAway?.lastStreamID ?? .max else {
      return fail(.protocolError, "GOAWAY with a higher last stream than before")
    }
    broughtNothing()
    received(
      HTTP2GoAway(
        lastStreamID: last, errorCode: HTTP2ErrorCode(rawValue: payload.word(at: 4)),
        debugData: Array(payload.extracting(8..<min(payload.count, 8 + HTTP2GoAway.debugByteCountLimit)))))
  }

  private mutating func windowUpdate(_ header: HTTP2Frame.Header, _ payload: Span<UInt8>) {
    guard payload.count == 4 else { return fail(.frameSizeError, "WINDOW_UPDATE of a wrong size") }
    guard header.streamID == 0 || !streams.isIdle(header.streamID) else {
      return fail(.protocolError, "WINDOW_UPDATE on a stream that was never opened")
    }
    let increment = Int(payload.word(at: 0) & 0x7FFF_FFFF)
    guard increment > 0 else { return fail(.protocolError, "WINDOW_UPDATE by nothing") }
    windowGrew(header.streamID, by: increment)
  }
}
