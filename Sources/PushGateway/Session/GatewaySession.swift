package import PushWire

/// The gateway's side of one binary connection, without the connection: bytes and times in, actions out.
///
/// It keeps the protocol (BinaryProtocol.md, "Notification frames" and "The error response") and leaves to a ``FrameJudge`` what becomes of frames that keep the rules.
/// Everything after a refused frame is discarded until the connection is closed. Any chunking of the same bytes gives the same actions.
/// One event at a time, in the order of their times; after ``GatewayAction/close`` or ``GatewayAction/reset`` events lead to nothing, and frames are only counted.
package struct GatewaySession: ~Copyable {
  private var decoder: FrameDecoder
  private var core: Core

  package init(_ settings: Settings) {
    decoder = FrameDecoder(limits: settings.limits, goesOn: true)
    core = Core(settings)
  }

  package var counts: Counts { core.counts }
  /// True once nothing more will be done on this connection.
  package var isClosed: Bool { core.isClosed }

  /// The first event: the connection is ready to be read.
  package mutating func opened(now: Instant, judge: inout some FrameJudge & ~Copyable) -> [GatewayAction] {
    core.opened(now: now, aftermath: judge.opened())
    return core.takeActions()
  }

  /// The client's next bytes, cut anywhere.
  package mutating func received(_ bytes: UnsafeRawBufferPointer, now: Instant, judge: inout some FrameJudge & ~Copyable) -> [GatewayAction] {
    core.beginRead(bytes.count, now: now)
    unsafe Self.decode(bytes, now: now, decoder: &decoder, core: &core, judge: &judge)
    core.endRead(holdsIncompleteFrame: decoder.pendingByteCount > 0, now: now)
    return core.takeActions()
  }

  /// The time has come that ``GatewayAction/wake(at:)`` asked for. Early or superfluous calls do no harm.
  package mutating func woken(now: Instant) -> [GatewayAction] {
    core.woken(now: now)
    return core.takeActions()
  }

  /// The client has finished sending (close_notify or FIN).
  package mutating func peerClosed(now: Instant) -> [GatewayAction] {
    core.peerClosed()
    return core.takeActions()
  }

  /// The gateway's own end: status 10 naming the last frame accepted, then the usual way of an answer. Ignored when the connection is ending already.
  package mutating func shutDown(now: Instant) -> [GatewayAction] {
    core.shutDown(now: now)
    return core.takeActions()
  }

  /// Takes the two halves apart, so that the decoder can run while the core hears about each frame.
  private static func decode(
    _ bytes: UnsafeRawBufferPointer,
    now: Instant,
    decoder: inout FrameDecoder,
    core: inout Core,
    judge: inout some FrameJudge & ~Copyable
  ) {
    unsafe decoder.consume(bytes) { frame in
      unsafe core.decoded(frame, now: now, judge: &judge)
      return true
    }
  }
}
