package import PushWire

/// The gateway's side of one binary connection, without the connection: bytes and times in, actions
/// out.
///
/// It applies the rules of the protocol (BinaryProtocol, "Notification frames" and "The error
/// response"). A ``FramePolicy`` decides on frames that keep the rules. Everything after a refused
/// frame is discarded until the connection is closed. How the bytes are cut into reads makes no
/// difference.
///
/// Events must come one at a time, in the order of their times. After ``GatewayAction/close`` or
/// ``GatewayAction/reset``, events lead to no action and frames are only counted.
package struct GatewaySession: ~Copyable {
  private var decoder: FrameDecoder
  private var core: Core

  package init(_ settings: Settings) {
    decoder = FrameDecoder(limits: settings.limits, goesOn: true)
    core = Core(settings)
  }

  package var counts: Counts { core.counts }
  /// True when the session will do nothing more on this connection.
  package var isClosed: Bool { core.isClosed }

  /// The first event: the connection is ready to be read.
  package mutating func opened(now: Instant, policy: inout some FramePolicy & ~Copyable) -> [GatewayAction] {
    core.opened(now: now, interruption: policy.opened())
    return core.takeActions()
  }

  /// The client's next bytes, cut anywhere.
  package mutating func received(
    _ bytes: UnsafeRawBufferPointer, now: Instant, policy: inout some FramePolicy & ~Copyable
  ) -> [GatewayAction] {
    core.beginRead(bytes.count, now: now)
    Self.decode(unsafe Span(_unsafeBytes: bytes), now: now, decoder: &decoder, core: &core, policy: &policy)
    core.endRead(holdsIncompleteFrame: decoder.pendingByteCount > 0, now: now)
    return core.takeActions()
  }

  /// The time of ``GatewayAction/wake(at:)`` has come. Calls that are early or superfluous do no
  /// harm.
  package mutating func woken(now: Instant) -> [GatewayAction] {
    core.woken(now: now)
    return core.takeActions()
  }

  /// The client has finished sending (close_notify or FIN).
  package mutating func peerClosed(now: Instant) -> [GatewayAction] {
    core.peerClosed()
    return core.takeActions()
  }

  /// The gateway ends the connection: status 10 with the identifier of the last accepted frame,
  /// then the half-close that follows any error response. Ignored while the connection is ending.
  package mutating func shutDown(now: Instant) -> [GatewayAction] {
    core.shutDown(now: now)
    return core.takeActions()
  }

  /// Takes decoder and core as two arguments, because the core is mutated while the decoder runs.
  private static func decode(
    _ bytes: Span<UInt8>, now: Instant, decoder: inout FrameDecoder, core: inout Core,
    policy: inout some FramePolicy & ~Copyable
  ) {
    decoder.consume(bytes) { frame in
      core.decoded(frame, now: now, policy: &policy)
      return true
    }
  }
}
