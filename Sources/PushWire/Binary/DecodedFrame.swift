/// What a gateway's decoder accepts; sizes in bytes. The defaults are those of BinaryProtocol.md, "Decoding rules".
package struct DecoderLimits: Hashable, Sendable {
  /// The largest frame: for command 2 the 32-bit frame length, for commands 0 and 1 the whole frame. A frame that announces more is refused
  /// before any of it is buffered.
  package var frameByteCount = 8192
  /// The size that tokens of this app must have; nil accepts every size that the protocol allows, 1 to 100.
  package var tokenByteCount: Int? = 32
  /// The largest payload of command 0. Five of the old client libraries send up to 2048 here, so it is a setting.
  package var simplePayload = 256
  /// The largest payload of command 1.
  package var enhancedPayload = 256
  /// The largest payload of command 2.
  package var framedPayload = 2048

  package init() {}

  func payloadLimit(_ command: FrameVersion) -> Int {
    switch command {
    case .simple: simplePayload
    case .enhanced: enhancedPayload
    case .framed: framedPayload
    }
  }
}

/// One notification as a gateway sees it. `token` and `payload` are views that are valid only during the call that delivers them.
@unsafe
package struct DecodedFrame {
  /// Nil when the first byte was none of 0, 1 and 2; then there is a violation and nothing else.
  package var command: FrameVersion?
  /// Empty when the frame has none, or when it could not be parsed.
  package var token = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
  /// Empty when the frame has none, when it could not be parsed, or when it was refused before it was read.
  package var payload = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
  /// Nil for command 0, and when there was none or the frame broke off before it. The error response then says 0.
  package var identifier: UInt32?
  /// UNIX seconds; 0 means "do not store".
  package var expiration: UInt32?
  /// As on the wire; nil for commands 0 and 1, where 10 is implied.
  package var priority: UInt8?
  /// Nil when the frame obeys all rules of encoding and size. Otherwise the first that it breaks in the order 128, 2, 4, 5, 7, and the last
  /// frame that the decoder delivers. Whether the payload is a JSON object (status 1) is not judged here: see `JSONScanner`.
  package var violation: GatewayStatus?

  init(command: FrameVersion?, violation: GatewayStatus? = nil) {
    unsafe self.command = command
    unsafe self.violation = violation
  }
}
