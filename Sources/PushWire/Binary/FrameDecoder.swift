/// The gateway's side of the binary protocol: notification frames of commands 0, 1 and 2 out of bytes cut anywhere.
///
/// Frames that lie whole within the bytes given are delivered as views into them; only a frame that is cut off at the end is copied, and it is
/// kept until its rest arrives. What is kept never exceeds `frameByteCount` + 5. The result does not depend on how the bytes were cut.
package struct FrameDecoder: Sendable {
  package let limits: DecoderLimits
  /// True after the first violation, or after `body` returned false: everything later is discarded, as the protocol demands of a gateway that answers.
  /// With ``goesOn`` only after one of those violations that leave the end of the frame unknown.
  package private(set) var isStopped = false
  /// Frames behind a violation are delivered, too: for a gateway that counts what it discards.
  private let goesOn: Bool
  /// Bytes of a frame that is too large to be kept, still to come.
  private var skippedByteCount = 0
  /// The beginning of a frame whose end has not come yet.
  private var pending: [UInt8] = []

  package init(limits: DecoderLimits = DecoderLimits(), goesOn: Bool = false) {
    self.limits = limits
    self.goesOn = goesOn
  }

  /// How many bytes of an incomplete frame are held. If this is not 0 at end of stream, the client broke off within a frame.
  package var pendingByteCount: Int { pending.count }

  /// Takes the next bytes of the connection and calls `body` for each frame that they complete, in order. `body` returns false to stop.
  package mutating func consume(_ bytes: UnsafeRawBufferPointer, _ body: (DecodedFrame) -> Bool) {
    var rest = unsafe bytes[...]
    unsafe skip(in: &rest)
    if !isStopped, !pending.isEmpty {
      unsafe finishPending(from: &rest, body)
    }
    guard !isStopped, pending.isEmpty else { return }
    unsafe skip(in: &rest)
    let whole = unsafe UnsafeRawBufferPointer(rebasing: rest)
    var offset = 0
    while offset < whole.count {
      let view = unsafe UnsafeRawBufferPointer(rebasing: whole[offset...])
      switch unsafe FrameParser.measure(view, limits) {
      case .whole(let byteCount):
        offset += byteCount
        let frame = unsafe FrameParser.frame(UnsafeRawBufferPointer(rebasing: view[..<byteCount]), limits)
        isStopped = unsafe !body(frame) || frame.violation != nil && !goesOn
        if isStopped { return }
      case .refused(let status, let byteCount):
        let skipped = unsafe refuse(view, status, byteCount: byteCount, body)
        let present = min(skipped, view.count)
        skippedByteCount = skipped - present
        offset += present
        if isStopped { return }
      case .incomplete:
        unsafe pending.append(contentsOf: view)
        return
      }
    }
  }

  /// Appends to the frame that is kept just the bytes that it still needs; its header may have to be completed before it says how many these are.
  private mutating func finishPending(from rest: inout Slice<UnsafeRawBufferPointer>, _ body: (DecodedFrame) -> Bool) {
    let limits = limits
    while true {
      switch unsafe pending.withUnsafeBytes({ unsafe FrameParser.measure($0, limits) }) {
      case .incomplete(let needed):
        let missing = unsafe rest.prefix(needed - pending.count)
        guard unsafe !missing.isEmpty else { return }
        unsafe pending.append(contentsOf: missing)
        unsafe rest = rest.dropFirst(missing.count)
      case .whole:
        isStopped = unsafe pending.withUnsafeBytes {
          let frame = unsafe FrameParser.frame($0, limits)
          return unsafe !body(frame) || frame.violation != nil && !goesOn
        }
        pending.removeAll(keepingCapacity: true)
        return
      case .refused(let status, let byteCount):
        let kept = pending
        pending.removeAll()
        skippedByteCount = unsafe kept.withUnsafeBytes { unsafe refuse($0, status, byteCount: byteCount, body) } - kept.count
        return
      }
    }
  }

  /// Delivers a frame that is not waited for. Returns how many bytes of it there are from its beginning; unless the decoder has stopped, at least as many as
  /// `view` has of it.
  private mutating func refuse(_ view: UnsafeRawBufferPointer, _ status: GatewayStatus, byteCount: Int?, _ body: (DecodedFrame) -> Bool) -> Int {
    isStopped = unsafe !body(FrameParser.refusal(view, status)) || !goesOn || byteCount == nil
    return isStopped ? view.count : byteCount ?? view.count
  }

  private mutating func skip(in rest: inout Slice<UnsafeRawBufferPointer>) {
    guard skippedByteCount > 0 else { return }
    let present = unsafe min(skippedByteCount, rest.count)
    skippedByteCount -= present
    unsafe rest = rest.dropFirst(present)
  }
}
