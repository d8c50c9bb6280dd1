package import NIOCore
package import PushWire

/// One notification of a bridge's client: a frame that keeps the rules of the protocol.
package struct BridgeFrame: Sendable {
  package let token: TokenBytes
  package let payload: [UInt8]
  package let expiration: UInt32?
  package let priority: UInt8?
  package let digest: FrameDigest
}

/// Takes in what a bridge's client sends.
package protocol BridgeIntake: ~Copyable {
  /// Called for each frame that keeps the rules, in order.
  ///
  /// - Parameter number: of the frame on its connection, from 0.
  /// - Returns: the frame's answer, if it is known already. Otherwise it comes later, by
  ///   ``BridgeSession/answered(_:_:now:)``.
  mutating func take(_ frame: BridgeFrame, number: UInt64) -> FrameAnswer?
}

/// What the shell of a bridge session must do, in this order.
package enum BridgeAction: Hashable, Sendable {
  /// What the client concludes is decided.
  case concluded(BridgeEnd)
  /// Write these six bytes, as one write.
  case send(ErrorResponse)
  /// Send close_notify, then FIN, and keep reading. The session discards what still arrives.
  case halfClose
  /// Close both directions. The session's last action.
  case close
}

/// The bridge's side of one binary connection, without the connection: bytes, answers and times in,
/// actions out.
///
/// It parses as the simulator does, and answers by what became of the notifications upstream:
/// ``BridgeWindow`` has the order of conclusions. How the bytes are cut into reads makes no
/// difference.
package struct BridgeSession: ~Copyable {
  package struct Settings: Hashable, Sendable {
    package var limits = DecoderLimits()
    package var window = BridgeWindow.Limits()
    /// How long a client may take to close after the error response.
    package var drainTime = Duration.seconds(2)
    /// A frame must be complete this long after its first byte, or after reading went on.
    package var frameTime = Duration.seconds(60)

    package init() {}
  }

  private var decoder: FrameDecoder
  private var core: Core

  package init(_ settings: Settings = Settings()) {
    decoder = FrameDecoder(limits: settings.limits)
    core = Core(settings)
  }

  /// Whether the client's bytes are wanted now. If not, nothing is read from the socket: TCP makes
  /// the client wait.
  package var wantsBytes: Bool { core.wantsBytes }
  /// False: what arrives is discarded.
  package var takesFrames: Bool { core.takesFrames }
  /// When ``woken(now:)`` must be called.
  package var wake: Instant? { core.wake }
  package var isClosed: Bool { core.isClosed }
  /// Frames that arrived, also those that were refused.
  package var frameCount: UInt64 { core.window.nextFrame }
  package var pendingCount: Int { core.window.pendingCount }
  /// The connection ends because a frame of command 0 failed.
  package var hasFailedSilently: Bool {
    if case .failed(_, nil)? = core.window.conclusion { true } else { false }
  }

  /// The client's next bytes, cut anywhere.
  package mutating func received(
    _ bytes: UnsafeRawBufferPointer, now: Instant, intake: inout some BridgeIntake & ~Copyable
  ) -> [BridgeAction] {
    if core.takesFrames {
      Self.decode(unsafe Span(_unsafeBytes: bytes), now: now, decoder: &decoder, core: &core, intake: &intake)
      core.read(holdsPart: decoder.pendingByteCount > 0)
    }
    return core.takeActions(now: now)
  }

  package mutating func received(
    _ bytes: ByteBuffer, now: Instant, intake: inout some BridgeIntake & ~Copyable
  ) -> [BridgeAction] {
    unsafe bytes.withUnsafeReadableBytes { unsafe received($0, now: now, intake: &intake) }
  }

  /// What became of neighbouring frames for which the intake had no answer.
  ///
  /// - Parameter frame: the first.
  package mutating func answered(
    _ frame: UInt64, count: Int = 1, _ answer: FrameAnswer, now: Instant
  ) -> [BridgeAction] {
    core.window.answered(frame, count: count, answer, now: now)
    return core.takeActions(now: now)
  }

  /// Everything that was taken in before a frame is in the journal. Call before the session ends.
  package mutating func journalled(before frame: UInt64) { core.window.journalled(before: frame) }

  /// The bridge ends, or its upstream does.
  ///
  /// - Parameters:
  ///   - frame: nothing from this one on was taken in. Nil: everything was.
  ///   - latest: when the conclusion must be drawn, if that is earlier than it would be.
  package mutating func end(before frame: UInt64? = nil, by latest: Instant? = nil, now: Instant) -> [BridgeAction] {
    core.window.end(before: frame, by: latest, now: now)
    return core.takeActions(now: now)
  }

  /// The client sends nothing more; it may still read.
  package mutating func peerClosed(now: Instant) -> [BridgeAction] {
    core.peerClosed(holdsPart: decoder.pendingByteCount > 0, now: now)
    return core.takeActions(now: now)
  }

  /// The shell has stopped reading from the socket, or reads again.
  package mutating func setReading(_ isReading: Bool, now: Instant) { core.setReading(isReading, now: now) }

  package mutating func woken(now: Instant) -> [BridgeAction] {
    core.woken(now: now)
    return core.takeActions(now: now)
  }

  /// Takes decoder and core as two arguments, because the core is mutated while the decoder runs.
  private static func decode(
    _ bytes: Span<UInt8>, now: Instant, decoder: inout FrameDecoder, core: inout Core,
    intake: inout some BridgeIntake & ~Copyable
  ) {
    decoder.consume(bytes) { frame in
      core.decoded(frame, now: now, intake: &intake)
      return core.takesFrames
    }
  }
}
