/// The gateway's side of the binary protocol: decodes notification frames of commands 0, 1 and 2
/// from reads of any size.
///
/// Frames that are complete in the bytes given are delivered as views into them. Only a frame that
/// is cut off at the end is copied, and kept until its rest arrives. At most `frameByteCount` + 5
/// bytes are kept. The result does not depend on the sizes of the reads.
package struct FrameDecoder: Sendable {
  package let limits: DecoderLimits
  /// True after the first violation, or after `body` returned false. Later frames are discarded, as
  /// the protocol demands of a gateway that answers. With `goesOn`, only a violation that leaves
  /// the end of the frame unknown has this effect.
  package private(set) var isStopped = false
  /// Whether frames behind a violation are delivered too, for a gateway that counts what it
  /// discards.
  private let goesOn: Bool
  /// The bytes still to come of a frame that is too large to be kept.
  private var skippedByteCount = 0
  /// The beginning of a frame whose end has not arrived.
  private var pending: [UInt8] = []

  package init(limits: DecoderLimits = DecoderLimits(), goesOn: Bool = false) {
    (self.limits, self.goesOn) = (limits, goesOn)
  }

  /// How many bytes of an incomplete frame are kept. If this is not 0 at end of stream, the client
  /// broke off inside a frame.
  package var pendingByteCount: Int { pending.count }

  /// Takes the next bytes of the connection and calls `body` for each frame that they complete, in
  /// order. `body` returns false to stop.
  package mutating func consume(_ bytes: Span<UInt8>, _ body: (DecodedFrame) -> Bool) {
    var offset = skip(bytes, from: 0)
    if !isStopped, !pending.isEmpty { offset = finishPending(bytes, from: offset, body) }
    guard !isStopped, pending.isEmpty else { return }
    offset = skip(bytes, from: offset)
    while offset < bytes.count {
      let view = bytes.extracting(offset..<bytes.count)
      switch FrameParser.measure(view, limits) {
      case .whole(let byteCount):
        offset += byteCount
        let frame = FrameParser.frame(view.extracting(0..<byteCount), limits)
        isStopped = !body(frame) || frame.violation != nil && !goesOn
        if isStopped { return }
      case .refused(let status, let byteCount):
        let skipped = refuse(view, status, byteCount: byteCount, body)
        let present = min(skipped, view.count)
        skippedByteCount = skipped - present
        offset += present
        if isStopped { return }
      case .incomplete:
        pending.append(view)
        return
      }
    }
  }

  /// Appends to the kept frame only the bytes that it still needs. Its header may have to be
  /// completed first, because the header says how many these are. Returns the offset behind them.
  private mutating func finishPending(_ bytes: Span<UInt8>, from start: Int, _ body: (DecodedFrame) -> Bool) -> Int {
    var offset = start
    while true {
      switch FrameParser.measure(pending.span, limits) {
      case .incomplete(let needed):
        let end = min(bytes.count, offset + needed - pending.count)
        guard end > offset else { return offset }
        pending.append(bytes.extracting(offset..<end))
        offset = end
      case .whole:
        var kept: [UInt8] = []
        swap(&kept, &pending)
        do {
          let frame = FrameParser.frame(kept.span, limits)
          isStopped = !body(frame) || frame.violation != nil && !goesOn
        }
        kept.removeAll(keepingCapacity: true)
        pending = kept
        return offset
      case .refused(let status, let byteCount):
        let kept = pending
        pending.removeAll()
        skippedByteCount = refuse(kept.span, status, byteCount: byteCount, body) - kept.count
        return offset
      }
    }
  }

  /// Delivers a rejected frame without waiting for its rest. Returns the frame's number of bytes
  /// from its beginning; unless the decoder has stopped, at least as many as `view` has of it.
  private mutating func refuse(
    _ view: Span<UInt8>, _ status: GatewayStatus, byteCount: Int?, _ body: (DecodedFrame) -> Bool
  ) -> Int {
    isStopped = !body(FrameParser.refusal(view, status)) || !goesOn || byteCount == nil
    return isStopped ? view.count : byteCount ?? view.count
  }

  /// Returns the offset behind what belongs to a frame that is not kept.
  private mutating func skip(_ bytes: Span<UInt8>, from offset: Int) -> Int {
    let present = min(skippedByteCount, bytes.count - offset)
    skippedByteCount -= present
    return offset + present
  }
}
