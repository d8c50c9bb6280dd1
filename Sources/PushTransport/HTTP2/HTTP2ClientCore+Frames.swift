internal import PushWire

extension HTTP2ClientCore {
  // MARK: Bytes

  /// Memory for the beginning of a frame that is kept between reads.
  private static let partialByteCountKept = 2048

  mutating func receive(_ bytes: UnsafeRawBufferPointer) {
    guard failure == nil, !isClosing else { return }
    var offset = 0
    if !partial.isEmpty {
      offset = unsafe completePartial(bytes)
      guard partial.isEmpty else { return }
    }
    guard let base = bytes.baseAddress else { return }
    while failure == nil, bytes.count - offset >= HTTP2Frame.headerByteCount {
      let header = unsafe HTTP2Frame.Header(base + offset)
      guard check(header) else { return }
      let end = offset + HTTP2Frame.headerByteCount + header.byteCount
      guard end <= bytes.count else { break }
      unsafe process(
        header, UnsafeRawBufferPointer(rebasing: bytes[(offset + HTTP2Frame.headerByteCount)..<end]))
      offset = end
    }
    if failure == nil, offset < bytes.count { unsafe partial.append(contentsOf: bytes[offset...]) }
  }

  /// Continues the frame that the last read has cut. Returns how many bytes it took.
  private mutating func completePartial(_ bytes: UnsafeRawBufferPointer) -> Int {
    var frame: [UInt8] = []
    swap(&frame, &partial)
    var offset = 0
    func take(upTo count: Int) -> Bool {
      let missing = min(count - frame.count, bytes.count - offset)
      if missing > 0 {
        unsafe frame.append(contentsOf: bytes[offset..<offset + missing])
        offset += missing
      }
      return frame.count >= count
    }
    guard take(upTo: HTTP2Frame.headerByteCount) else {
      partial = frame
      return offset
    }
    let header = unsafe frame.withUnsafeBytes { bytes in
      unsafe bytes.baseAddress.map { unsafe HTTP2Frame.Header($0) }
    }
    guard let header, check(header) else { return offset }
    guard take(upTo: HTTP2Frame.headerByteCount + header.byteCount) else {
      partial = frame
      return offset
    }
    unsafe frame.withUnsafeBytes { bytes in
      unsafe process(header, UnsafeRawBufferPointer(rebasing: bytes[HTTP2Frame.headerByteCount...]))
    }
    guard frame.capacity <= Self.partialByteCountKept else { return offset }
    frame.removeAll(keepingCapacity: true)
    partial = frame
    return offset
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

  private mutating func process(_ header: HTTP2Frame.Header, _ payload: UnsafeRawBufferPointer) {
    hasFrame = true
    switch header.kind {
    case HTTP2Frame.Kind.headers: unsafe headers(header, payload)
    case HTTP2Frame.Kind.data: unsafe data(header, payload)
    case HTTP2Frame.Kind.windowUpdate: unsafe windowUpdate(header, payload)
    case HTTP2Frame.Kind.continuation: unsafe continuation(header, payload)
    case HTTP2Frame.Kind.reset: unsafe reset(header, payload)
    case HTTP2Frame.Kind.settings: unsafe settings(header, payload)
    case HTTP2Frame.Kind.ping: unsafe ping(header, payload)
    case HTTP2Frame.Kind.goAway: unsafe goAway(header, payload)
    case HTTP2Frame.Kind.priority:
      guard header.streamID != 0 else { return fail(.protocolError, "PRIORITY on stream 0") }
      guard payload.count == 5 else { return fail(.frameSizeError, "PRIORITY of a wrong size") }
      broughtNothing()
    case HTTP2Frame.Kind.pushPromise: fail(.protocolError, "PUSH_PROMISE, although push is disabled")
    default: broughtNothing()
    }
  }

  /// The payload without its padding; nil: the connection has failed.
  @inline(__always)
  private mutating func unpadded(
    _ header: HTTP2Frame.Header, _ payload: UnsafeRawBufferPointer
  ) -> UnsafeRawBufferPointer? {
    guard header.has(HTTP2Frame.Flags.padded) else { return unsafe payload }
    guard let count = unsafe payload.first.map(Int.init), count < payload.count else {
      fail(.protocolError, "more padding than payload")
      return nil
    }
    return unsafe UnsafeRawBufferPointer(rebasing: payload[1..<payload.count - count])
  }

  private mutating func headers(_ header: HTTP2Frame.Header, _ payload: UnsafeRawBufferPointer) {
    guard !streams.isIdle(header.streamID), header.streamID != 0 else {
      return fail(.protocolError, "HEADERS on a stream that was never opened")
    }
    guard var fragment = unsafe unpadded(header, payload) else { return }
    if header.has(HTTP2Frame.Flags.priority) {
      guard fragment.count >= 5 else { return fail(.frameSizeError, "HEADERS without its priority") }
      unsafe fragment = UnsafeRawBufferPointer(rebasing: fragment[5...])
    }
    let endsStream = header.has(HTTP2Frame.Flags.endStream)
    if header.has(HTTP2Frame.Flags.endHeaders) {
      unsafe headerBlock(fragment, streamID: header.streamID, endsStream: endsStream)
    } else {
      blockOwner = (header.streamID, endsStream)
      unsafe block.append(contentsOf: fragment)
    }
  }

  private mutating func continuation(_ header: HTTP2Frame.Header, _ payload: UnsafeRawBufferPointer) {
    guard let owner = blockOwner else { return fail(.protocolError, "CONTINUATION without a header block") }
    if payload.count == 0 { broughtNothing() }
    // A list of the announced size may be coded badly, but not that badly.
    guard block.count + payload.count <= 4 * limits.headerByteCount else {
      return fail(.enhanceYourCalm, "a header block of more than \(4 * limits.headerByteCount) bytes")
    }
    unsafe block.append(contentsOf: payload)
    guard header.has(HTTP2Frame.Flags.endHeaders) else { return }
    blockOwner = nil
    var whole: [UInt8] = []
    swap(&whole, &block)
    unsafe whole.withUnsafeBytes {
      unsafe headerBlock($0, streamID: owner.streamID, endsStream: owner.endsStream)
    }
  }

  private mutating func data(_ header: HTTP2Frame.Header, _ payload: UnsafeRawBufferPointer) {
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
    guard let bytes = unsafe unpadded(header, payload) else { return }
    let endsStream = header.has(HTTP2Frame.Flags.endStream)
    if bytes.count == 0, !endsStream { broughtNothing() }
    guard let stream = unsafe streams.find(header.streamID) else { return broughtNothing() }
    guard unsafe stream.pointee.hasFinalHeaders else { return unsafe reset(stream, .protocolError) }
    unsafe stream.pointee.unreturnedByteCount += payload.count
    guard unsafe stream.pointee.unreturnedByteCount <= HTTP2Frame.window else {
      return unsafe reset(stream, .flowControlError)
    }
    unsafe keep(bytes, of: stream)
    if endsStream { return unsafe answered(stream) }
    if unsafe stream.pointee.unreturnedByteCount > HTTP2Frame.window / 2 {
      unsafe sendWindowUpdate(header.streamID, stream.pointee.unreturnedByteCount)
      unsafe stream.pointee.unreturnedByteCount = 0
    }
  }

  private mutating func reset(_ header: HTTP2Frame.Header, _ payload: UnsafeRawBufferPointer) {
    guard payload.count == 4 else { return fail(.frameSizeError, "RST_STREAM of a wrong size") }
    guard !streams.isIdle(header.streamID), header.streamID != 0 else {
      return fail(.protocolError, "RST_STREAM on a stream that was never opened")
    }
    guard let stream = unsafe streams.find(header.streamID) else { return broughtNothing() }
    let code = HTTP2ErrorCode(rawValue: unsafe Self.word(payload, at: 0))
    unsafe end(stream, code, isUnprocessed: code == .refusedStream || !isSent(header.streamID))
  }

  private mutating func settings(_ header: HTTP2Frame.Header, _ payload: UnsafeRawBufferPointer) {
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
      let setting = unsafe UInt16(bigEndian: payload.loadUnaligned(fromByteOffset: place, as: UInt16.self))
      received(setting: setting, unsafe Self.word(payload, at: place + 2))
    }
    settingsEnded()
  }

  private mutating func ping(_ header: HTTP2Frame.Header, _ payload: UnsafeRawBufferPointer) {
    guard header.streamID == 0 else { return fail(.protocolError, "PING on a stream") }
    guard payload.count == 8 else { return fail(.frameSizeError, "PING of a wrong size") }
    let number = unsafe UInt64(bigEndian: payload.loadUnaligned(as: UInt64.self))
    if header.has(HTTP2Frame.Flags.acknowledgement) { pongArrived(number) } else { pingArrived(number) }
  }

  private mutating func goAway(_ header: HTTP2Frame.Header, _ payload: UnsafeRawBufferPointer) {
    guard header.streamID == 0 else { return fail(.protocolError, "GOAWAY on a stream") }
    guard payload.count >= 8 else { return fail(.frameSizeError, "GOAWAY of a wrong size") }
    let last = Int32(bitPattern: unsafe Self.word(payload, at: 0) & 0x7FFF_FFFF)
    guard last <= goAway?.lastStreamID ?? .max else {
      return fail(.protocolError, "GOAWAY with a higher last stream than before")
    }
    broughtNothing()
    received(
      HTTP2GoAway(
        lastStreamID: last, errorCode: HTTP2ErrorCode(rawValue: unsafe Self.word(payload, at: 4)),
        debugData: unsafe Array(payload[8...].prefix(HTTP2GoAway.debugByteCountLimit))))
  }

  private mutating func windowUpdate(_ header: HTTP2Frame.Header, _ payload: UnsafeRawBufferPointer) {
    guard payload.count == 4 else { return fail(.frameSizeError, "WINDOW_UPDATE of a wrong size") }
    guard header.streamID == 0 || !streams.isIdle(header.streamID) else {
      return fail(.protocolError, "WINDOW_UPDATE on a stream that was never opened")
    }
    let increment = unsafe Int(Self.word(payload, at: 0) & 0x7FFF_FFFF)
    guard increment > 0 else { return fail(.protocolError, "WINDOW_UPDATE by nothing") }
    windowGrew(header.streamID, by: increment)
  }

  private static func word(_ payload: UnsafeRawBufferPointer, at offset: Int) -> UInt32 {
    unsafe UInt32(bigEndian: payload.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
  }
}
