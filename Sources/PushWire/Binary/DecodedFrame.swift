/// What a gateway's decoder accepts; sizes in bytes. For the defaults see BinaryProtocol.md,
/// "Decoding rules".
package struct DecoderLimits: Hashable, Sendable {
  /// The largest frame: for command 2 the 32-bit frame length, for commands 0 and 1 the whole
  /// frame. A frame that announces more is rejected before any of it is buffered.
  package var frameByteCount = 8192
  /// The token size of this app; default 32. Nil accepts every size that the protocol allows, 1 to
  /// 100.
  package var tokenByteCount: Int? = 32
  /// The largest payload of command 0; default 256. It is a setting because five of the old client
  /// libraries send up to 2048.
  package var simplePayload = 256
  /// The largest payload of command 1; default 256.
  package var enhancedPayload = 256
  /// The largest payload of command 2; default 2048.
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

/// One notification as the gateway receives it, with views of what was received.
package struct DecodedFrame: ~Escapable {
  /// Nil if the first byte was not 0, 1 or 2. Then only `violation` has a value.
  package var command: FrameVersion?
  /// Empty if the frame has none, or could not be parsed.
  package var token: Span<UInt8>
  /// Empty if the frame has none, could not be parsed, or was rejected before its payload was read.
  package var payload: Span<UInt8>
  /// Nil for command 0, if the frame has none, and if the frame broke off before it. The error
  /// response then has identifier 0.
  package var identifier: UInt32?
  /// UNIX seconds; 0 means "do not store".
  package var expiration: UInt32?
  /// The value on the wire; nil for commands 0 and 1, which mean 10.
  package var priority: UInt8?
  /// The first rule of encoding and size that the frame breaks, in the order 128, 2, 4, 5, 7; nil
  /// if it breaks none. A frame with a violation is the last one that the decoder delivers. Whether
  /// the payload is a JSON object (status 1) is not checked here: see `JSONScanner`.
  package var violation: GatewayStatus?

  @_lifetime(copy bytes)
  init(_ bytes: Span<UInt8>, command: FrameVersion?, violation: GatewayStatus? = nil) {
    token = Span()
    payload = Span()
    (self.command, self.violation) = (command, violation)
  }
}
