internal import PushWire

extension HTTP2ClientCore {
  // MARK: Header blocks

  /// What is known of a header block while it is decoded.
  private struct BlockState {
    var fieldCount = 0
    var byteCount = 0
    let isTrailers: Bool
    var hasStatus = false
    var hasRegularField = false
    /// Larger than any valid one.
    var isTooLarge = false
    var isMalformed = false
  }

  /// What is noted of a field of the dynamic table: most responses repeat what was checked before.
  private enum FieldNote {
    static let valid: UInt8 = 1
    /// Valid, and of no interest.
    static let plain: UInt8 = 2
  }

  /// A complete header block. It is decoded whatever becomes of its stream, because it changes the
  /// dynamic table.
  mutating func headerBlock(_ block: Span<UInt8>, streamID: Int32, endsStream: Bool) {
    let stream = unsafe streams.find(streamID)
    var state = unsafe BlockState(isTrailers: stream?.pointee.hasFinalHeaders ?? false)
    decoder.begin()
    decoding: while true {
      switch decoder.next(in: block) {
      case .field(let field):
        state.fieldCount += 1
        unsafe state.byteCount += field.name.count + field.value.count + 32
        if state.fieldCount > limits.headerCount || state.byteCount > limits.headerByteCount { state.isTooLarge = true }
        guard let stream = unsafe stream, !state.isTooLarge, !state.isMalformed else { continue }
        if unsafe field.note == FieldNote.plain && !stream.pointee.keepsEverything {
          state.hasRegularField = true
          continue
        }
        let note = unsafe apply(field, to: stream, &state)
        if field.isAdded, !state.isMalformed { decoder.note(note) }
      case .end: break decoding
      case .fault(let fault): return fail(.compressionError, fault.rawValue)
      }
    }
    guard let stream = unsafe stream else { return broughtNothing() }
    if state.isTooLarge { return unsafe reset(stream, .internalError) }
    if state.isTrailers {
      return unsafe state.isMalformed || !endsStream ? reset(stream, .protocolError) : answered(stream)
    }
    guard state.hasStatus, !state.isMalformed else { return unsafe reset(stream, .protocolError) }
    // Only the final headers are kept: those of 1xx say nothing about the response.
    if unsafe (100..<200).contains(stream.pointee.status) {
      if endsStream { return unsafe reset(stream, .protocolError) }
      unsafe stream.pointee.status = 0
      unsafe stream.pointee.contentByteCount = nil
      if unsafe stream.pointee.keepsEverything { replies[streamID] = nil }
      return broughtNothing()
    }
    unsafe stream.pointee.hasFinalHeaders = true
    if endsStream { unsafe answered(stream) }
  }

  /// - Returns: what is to be noted of the field, if it is not malformed; 0: nothing.
  private mutating func apply(
    _ field: HPACKField, to stream: UnsafeMutablePointer<HTTP2ClientStream>, _ state: inout BlockState
  ) -> UInt8 {
    let (name, value) = unsafe (field.name, field.value)
    if unsafe name.first == UInt8(ascii: ":") {
      guard !state.isTrailers, !state.hasRegularField, !state.hasStatus, unsafe HTTP2Text.equal(name, ":status") else {
        state.isMalformed = true
        return 0
      }
      state.hasStatus = true
      unsafe stream.pointee.status = unsafe HTTP2Text.number(value).flatMap { UInt16(exactly: $0) } ?? 0
      return 0
    }
    state.hasRegularField = true
    guard unsafe field.note > 0 || (field.staticName > 0 || HTTP2Text.isName(name)) && HTTP2Text.isValue(value) else {
      state.isMalformed = true
      return 0
    }
    // Trailers contain nothing that is used.
    if state.isTrailers { return FieldNote.valid }
    var note = FieldNote.valid
    switch name.count {
    case 7 where unsafe HTTP2Text.equal(name, "apns-id"):
      unsafe stream.pointee.apnsID = unsafe APNSIdentifier(parsing: value)
    case 11 where unsafe HTTP2Text.equal(name, "retry-after"):
      unsafe stream.pointee.retryAfter = unsafe HTTP2Text.number(value).flatMap { UInt32(exactly: $0) }
    case 14 where unsafe HTTP2Text.equal(name, "content-length"):
      let count = unsafe HTTP2Text.number(value)
      if unsafe count == nil || stream.pointee.contentByteCount ?? count != count { state.isMalformed = true }
      unsafe stream.pointee.contentByteCount = count
    // The service's clock is needed only for refusals. Parsing a date costs more than the rest of a
    // successful response.
    case 4 where unsafe HTTP2Text.equal(name, "date"):
      if unsafe stream.pointee.status >= 400 {
        unsafe stream.pointee.date = unsafe HTTPDate.parse(Span(_unsafeBytes: value))
      }
    // HTTP/2 has no fields about the connection (RFC 9113, 8.2.2).
    case 7 where unsafe HTTP2Text.equal(name, "upgrade"),
      10 where unsafe HTTP2Text.equal(name, "connection") || HTTP2Text.equal(name, "keep-alive"),
      16 where unsafe HTTP2Text.equal(name, "proxy-connection"),
      17 where unsafe HTTP2Text.equal(name, "transfer-encoding"):
      state.isMalformed = true
    default: note = FieldNote.plain
    }
    guard unsafe stream.pointee.keepsEverything else { return note }
    unsafe replies[stream.pointee.streamID, default: HTTP2Reply(status: 0, fields: [], body: [])].fields.append(
      (name: String(decoding: name, as: UTF8.self), value: String(decoding: value, as: UTF8.self)))
    return note
  }

  // MARK: Bodies

  /// The limit for replies that are kept as a whole.
  private static let replyByteCountLimit = 4 * 1024 * 1024

  mutating func keep(_ bytes: Span<UInt8>, of stream: UnsafeMutablePointer<HTTP2ClientStream>) {
    unsafe stream.pointee.receivedByteCount += bytes.count
    if unsafe stream.pointee.keepsEverything {
      let streamID = unsafe stream.pointee.streamID
      let room = Self.replyByteCountLimit - (replies[streamID]?.body.count ?? 0)
      if room < bytes.count { unsafe stream.pointee.isBodyCut = true }
      return replies[streamID, default: HTTP2Reply(status: 0, fields: [], body: [])].body.append(
        bytes.extracting(0..<min(bytes.count, room)))
    }
    let taken = unsafe min(limits.bodyByteCount - stream.pointee.keptByteCount, bytes.count)
    if taken < bytes.count { unsafe stream.pointee.isBodyCut = true }
    guard taken > 0 else { return }
    let body = unsafe stream.pointee.receivedBody ?? takeBody()
    unsafe stream.pointee.receivedBody = unsafe body
    let room = unsafe UnsafeMutableRawBufferPointer(start: body + stream.pointee.keptByteCount, count: taken)
    unsafe bytes.extracting(0..<taken).withUnsafeBytes { unsafe room.copyMemory(from: $0) }
    unsafe stream.pointee.keptByteCount += taken
  }
}
