internal import PushWire

extension Workload {
  /// Encoding and decoding frames with a payload of 200 bytes.
  static let codec =
    FrameVersion.allCases.map(encoding) + [template] + FrameVersion.allCases.map(decoding) + [errorResponses, feedback]

  private static let frameCount = 10_000
  private static let tokenCount = 256
  /// The bytes that TLS delivers at once: one record.
  private static let pieceByteCount = 16 * 1024

  private static func encoding(_ command: FrameVersion) -> Workload {
    Workload("Encode.command\(command.rawValue)", frameCount, "frames") {
      let (tokens, payload, buffer) = (
        RawMemory(Samples.tokens(tokenCount)), RawMemory(Samples.payload), RawMemory(byteCount: 512)
      )
      return Iteration {
        for index in 0..<frameCount {
          _ = unsafe FrameEncoder.encode(
            command, token: tokens.piece(index % tokenCount * 32, 32), payload: payload.readable,
            identifier: UInt32(truncatingIfNeeded: index),
            expiration: 1_900_000_000, priority: 10, into: buffer.bytes)
        }
      }
    }
  }

  /// What a campaign uses: a prepared frame gets its token and its identifier.
  private static let template = Workload("Encode.template", frameCount, "frames") {
    let tokens = RawMemory(Samples.tokens(tokenCount))
    let frames = FrameTemplate(
      command: .framed, payload: Samples.payload, tokenByteCount: 32, expiration: 1_900_000_000, priority: 10)
    let buffer = RawMemory(byteCount: frames.frameByteCount)
    return Iteration {
      guard let token = unsafe tokens.bytes.baseAddress, let destination = unsafe buffer.bytes.baseAddress else {
        return
      }
      for index in 0..<frameCount {
        unsafe frames.encode(
          token: token + index % tokenCount * 32, identifier: UInt32(truncatingIfNeeded: index), into: destination)
      }
    }
  }

  private static func decoding(_ command: FrameVersion) -> Workload {
    Workload("Decode.command\(command.rawValue)", frameCount, "frames") {
      let frames = FrameTemplate(
        command: command, payload: Samples.payload, tokenByteCount: 32, expiration: 1_900_000_000, priority: 10)
      let (tokens, stream) = (
        RawMemory(Samples.tokens(tokenCount)), RawMemory(byteCount: frameCount * frames.frameByteCount)
      )
      guard let token = unsafe tokens.bytes.baseAddress, let destination = unsafe stream.bytes.baseAddress else {
        return Iteration {}
      }
      for index in 0..<frameCount {
        unsafe frames.encode(
          token: token + index % tokenCount * 32, identifier: UInt32(index),
          into: destination + index * frames.frameByteCount)
      }
      var decoder = FrameDecoder()
      return Iteration {
        var count = 0
        unsafe stream.forEachPiece(of: pieceByteCount) { piece in
          decoder.consume(unsafe Span(_unsafeBytes: piece)) { frame in
            count += frame.violation == nil && frame.payload.count == 200 ? 1 : 0
            return true
          }
        }
        try WorkloadFailure.check(count == frameCount, "\(count) frames were read, not \(frameCount)")
      }
    }
  }

  /// What the sender reads: at most one for each connection.
  private static let errorResponses = Workload("Decode.errorResponse", frameCount, "responses") {
    let response = RawMemory(ErrorResponse(status: .invalidToken, identifier: 77).bytes)
    return Iteration {
      var count = 0
      for _ in 0..<frameCount {
        var decoder = ErrorResponseDecoder()
        if case .response = unsafe decoder.consume(response.readable) { count += 1 }
      }
      try WorkloadFailure.check(count == frameCount, "\(count) error responses were read")
    }
  }

  private static let feedback = Workload("Decode.feedback", frameCount, "tuples", mayAllocate: true) {
    var bytes: [UInt8] = []
    let tokens = Samples.tokens(frameCount)
    for index in 0..<frameCount {
      guard let token = TokenBytes(bytes: tokens[index * 32..<(index + 1) * 32]) else { continue }
      FeedbackTuple(timestamp: 1_700_000_000, token: token).append(to: &bytes)
    }
    let stream = RawMemory(bytes)
    var decoder = FeedbackDecoder()
    return Iteration {
      var count = 0
      unsafe stream.forEachPiece(of: pieceByteCount) { piece in count += unsafe decoder.consume(piece).count }
      try WorkloadFailure.check(count == frameCount, "\(count) tuples were read")
    }
  }
}

extension RawMemory {
  /// Calls `body` with each piece, in order. The last piece may be shorter.
  func forEachPiece(of byteCount: Int, _ body: (UnsafeRawBufferPointer) -> Void) {
    var start = 0
    while unsafe start < bytes.count {
      let count = unsafe min(byteCount, bytes.count - start)
      unsafe body(piece(start, count))
      start += count
    }
  }
}
