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
  package mutating func consume(_ bytes: UnsafeRawBufferPointer, _ body: (DecodedFrame) -> Bool) {
    var rest = unsafe bytes[...]
    unsafe skip(in: &rest)
    if !isStopped, !pending.isEmpty { unsafe finishPending(from: &rest, body) }
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

  /// Appends to the kept frame only the bytes that it still needs. Its header may have to be
  /// completed first, because the header says how many these are.
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
        skippedByteCount =
          unsafe kept.withUnsafeBytes { unsafe refuse($0, status, byteCount: byteCount, body) } - kept.count
        return
      }
    }
  }

  /// Delivers a rejected frame without waiting for its rest. Returns the frame's number of bytes
  /// from its beginning; unless the decoder has stopped, at least as many as `view` has of it.
  private mutating func refuse(
    _ view: UnsafeRawBufferPointer, _ status: GatewayStatus, byteCount: Int?, _ body: (DecodedFrame) -> Bool
  ) -> Int {
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
