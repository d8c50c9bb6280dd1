internal import PushWire
internal import Support

/// A decoded frame that stays valid after the call that delivered it.
struct FrameRecord: Equatable {
  var command: FrameVersion?
  var token: [UInt8] = []
  var payload: [UInt8] = []
  var identifier: UInt32?
  var expiration: UInt32?
  var priority: UInt8?
  var violation: GatewayStatus?
}

extension FrameRecord {
  init(_ frame: DecodedFrame) {
    self.init(
      command: frame.command,
      token: Array(frame.token),
      payload: Array(frame.payload),
      identifier: frame.identifier,
      expiration: frame.expiration,
      priority: frame.priority,
      violation: frame.violation
    )
  }

  /// The frame on the wire, written by the encoder under test into memory of exactly its size.
  var encoded: [UInt8] {
    guard let command else { return [] }
    let byteCount = FrameEncoder.byteCount(
      command,
      tokenByteCount: token.count,
      payloadByteCount: payload.count,
      hasIdentifier: identifier != nil,
      hasExpiration: expiration != nil,
      hasPriority: priority != nil
    )
    return unsafe writingExactBytes(byteCount) { destination in
      unsafe withExactBytes(token) { token in
        unsafe withExactBytes(payload) { payload in
          unsafe FrameEncoder.encode(
            command,
            token: token,
            payload: payload,
            identifier: identifier,
            expiration: expiration,
            priority: priority,
            into: destination
          )
        }
      }
    }
  }
}

/// The result of decoding a stream.
struct Decoding: Equatable {
  var frames: [FrameRecord] = []
  var isStopped = false
  var pendingByteCount = 0
}

/// Feeds the pieces to a new decoder, each from memory of exactly its size.
func decode(_ pieces: [ArraySlice<UInt8>], limits: DecoderLimits = DecoderLimits(), stopAfter: Int = .max) -> Decoding {
  var decoder = FrameDecoder(limits: limits)
  var frames: [FrameRecord] = []
  for piece in pieces {
    unsafe withExactBytes(piece) { bytes in
      decoder.consume(unsafe Span(_unsafeBytes: bytes)) { frame in
        frames.append(FrameRecord(frame))
        return frames.count < stopAfter
      }
    }
  }
  return Decoding(frames: frames, isStopped: decoder.isStopped, pendingByteCount: decoder.pendingByteCount)
}

func decode(_ bytes: [UInt8], limits: DecoderLimits = DecoderLimits(), stopAfter: Int = .max) -> Decoding {
  decode([bytes[...]], limits: limits, stopAfter: stopAfter)
}

/// Big-endian bytes of a number, as in the tables of the specification.
func be16(_ value: Int) -> [UInt8] { [UInt8(value >> 8 & 0xFF), UInt8(value & 0xFF)] }
func be32(_ value: Int) -> [UInt8] { be16(value >> 16) + be16(value) }

/// An item of command 2.
func item(_ id: UInt8, _ data: [UInt8], length: Int? = nil) -> [UInt8] { [id] + be16(length ?? data.count) + data }

/// A frame of command 2 with these items.
func framed(_ items: [UInt8]..., length: Int? = nil) -> [UInt8] {
  let body = items.flatMap { $0 }
  return [2] + be32(length ?? body.count) + body
}
