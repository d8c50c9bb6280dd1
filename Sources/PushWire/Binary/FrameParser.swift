/// The layout rules of one frame. Each function reads only bytes that it has counted before.
/// Lengths from the wire are only compared.
enum FrameParser {
  /// What the available bytes say about the frame at their beginning.
  enum Extent: Equatable {
    /// More bytes are needed to continue: at least this many in all.
    case incomplete(needed: Int)
    /// The frame has this many bytes, and all of them are available.
    case whole(Int)
    /// The frame is rejected without waiting for its rest. It would have `byteCount` bytes; nil if
    /// its end is not known.
    case refused(GatewayStatus, byteCount: Int?)
  }

  /// Finds the end of the frame at the beginning of `view`, which has at least one byte.
  @inline(__always)
  static func measure(_ view: Span<UInt8>, _ limits: DecoderLimits) -> Extent {
    switch FrameVersion(rawValue: view[0]) {
    case .framed:
      guard view.count >= 5 else { return .incomplete(needed: 5) }
      let length = Int(view.word(at: 1))
      guard length <= limits.frameByteCount else { return .refused(.protocolError, byteCount: 5 + length) }
      return extent(5 + length, available: view.count)
    case .enhanced: return measureFixed(view, tokenLengthOffset: 9, limits, payloadLimit: limits.enhancedPayload)
    case .simple: return measureFixed(view, tokenLengthOffset: 1, limits, payloadLimit: limits.simplePayload)
    case nil: return .refused(.protocolError, byteCount: nil)
    }
  }

  /// Commands 0 and 1: two counted fields, without a length for both together.
  @inline(__always)
  private static func measureFixed(
    _ view: Span<UInt8>, tokenLengthOffset: Int, _ limits: DecoderLimits, payloadLimit: Int
  ) -> Extent {
    let tokenOffset = tokenLengthOffset + 2
    guard view.count >= tokenOffset else { return .incomplete(needed: tokenOffset) }
    let tokenByteCount = Int(view.half(at: tokenLengthOffset))
    let payloadOffset = tokenOffset + tokenByteCount + 2
    // A token that fills the largest frame has a wrong length.
    guard payloadOffset <= limits.frameByteCount else { return .refused(.protocolError, byteCount: nil) }
    guard view.count >= payloadOffset else { return .incomplete(needed: payloadOffset) }
    let payloadByteCount = Int(view.half(at: payloadOffset - 2))
    let total = payloadOffset + payloadByteCount
    guard total <= limits.frameByteCount else {
      // The part of the frame that was read is intact, so it gets the status of a complete frame.
      // Its payload is not waited for.
      return .refused(
        violation(
          tokenByteCount: tokenByteCount, payloadByteCount: payloadByteCount, limits, payloadLimit: payloadLimit)
          ?? .protocolError, byteCount: total)
    }
    return extent(total, available: view.count)
  }

  @inline(__always)
  private static func extent(_ total: Int, available: Int) -> Extent {
    available >= total ? .whole(total) : .incomplete(needed: total)
  }

  /// Describes a frame that `measure` rejected, from the part that is available.
  @_lifetime(copy view)
  static func refusal(_ view: Span<UInt8>, _ status: GatewayStatus) -> DecodedFrame {
    let command = FrameVersion(rawValue: view[0])
    var frame = DecodedFrame(view, command: command, violation: status)
    if command == .enhanced, view.count >= 9 {
      frame.identifier = view.word(at: 1)
      frame.expiration = view.word(at: 5)
    }
    return frame
  }

  /// Reads the frame that `view` exactly contains, as `measure` found it.
  @inline(__always)
  @_lifetime(copy view)
  static func frame(_ view: Span<UInt8>, _ limits: DecoderLimits) -> DecodedFrame {
    guard let command = FrameVersion(rawValue: view[0]) else { return refusal(view, .protocolError) }
    var frame = DecodedFrame(view, command: command)
    switch command {
    case .simple: readFixed(view, tokenLengthOffset: 1, into: &frame)
    case .enhanced:
      frame.identifier = view.word(at: 1)
      frame.expiration = view.word(at: 5)
      readFixed(view, tokenLengthOffset: 9, into: &frame)
    case .framed:
      guard readItems(view, into: &frame) else {
        frame.violation = .protocolError
        return frame
      }
    }
    frame.violation = violation(
      tokenByteCount: frame.token.count, payloadByteCount: frame.payload.count, limits,
      payloadLimit: limits.payloadLimit(command))
    return frame
  }

  /// The first of the statuses 2, 4, 5 and 7 that applies.
  @inline(__always)
  private static func violation(
    tokenByteCount: Int, payloadByteCount: Int, _ limits: DecoderLimits, payloadLimit: Int
  ) -> GatewayStatus? {
    if tokenByteCount == 0 { return .missingDeviceToken }
    if payloadByteCount == 0 { return .missingPayload }
    if let expected = limits.tokenByteCount {
      if tokenByteCount != expected { return .invalidTokenSize }
    } else if tokenByteCount > TokenBytes.byteCountLimit {
      return .invalidTokenSize
    }
    return payloadByteCount > payloadLimit ? .invalidPayloadSize : nil
  }

  @inline(__always)
  @_lifetime(frame: copy view)
  private static func readFixed(_ view: Span<UInt8>, tokenLengthOffset: Int, into frame: inout DecodedFrame) {
    let tokenOffset = tokenLengthOffset + 2
    let payloadOffset = tokenOffset + Int(view.half(at: tokenLengthOffset)) + 2
    frame.token = view.extracting(tokenOffset..<payloadOffset - 2)
    frame.payload = view.extracting(payloadOffset..<view.count)
  }

  /// Reads the items of command 2 in any order. Returns false if the frame breaks a rule of
  /// encoding: a repeated item, an unknown item, a number of the wrong size, or an item that ends
  /// behind its frame. While the item lengths hold, reading continues after an error, because the
  /// error response should name the identifier even if that comes later.
  @inline(__always)
  @_lifetime(frame: copy view)
  private static func readItems(_ view: Span<UInt8>, into frame: inout DecodedFrame) -> Bool {
    var offset = 5
    var seen: UInt8 = 0
    var isWellFormed = true
    while offset < view.count {
      guard view.count - offset >= FrameItem.headerByteCount else { return false }
      let byteCount = Int(view.half(at: offset + 1))
      let start = offset + FrameItem.headerByteCount
      guard byteCount <= view.count - start else { return false }
      let item = FrameItem(rawValue: view[offset])
      offset = start + byteCount
      guard let item, seen & (1 << item.rawValue) == 0 else {
        isWellFormed = false
        continue
      }
      seen |= 1 << item.rawValue
      switch item {
      case .token: frame.token = view.extracting(start..<offset)
      case .payload: frame.payload = view.extracting(start..<offset)
      case .identifier where byteCount == 4: frame.identifier = view.word(at: start)
      case .expiration where byteCount == 4: frame.expiration = view.word(at: start)
      case .priority where byteCount == 1: frame.priority = view[start]
      // go-libapns announces a priority of four bytes and writes one.
      case .identifier, .expiration, .priority: isWellFormed = false
      }
    }
    return isWellFormed
  }
}
