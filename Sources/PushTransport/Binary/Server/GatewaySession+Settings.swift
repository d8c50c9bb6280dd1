package import PushWire

extension GatewaySession {
  /// The limits and faults of one connection. The limits bound the memory and the sockets that a
  /// broken or hostile client can hold.
  package struct Settings: Hashable, Sendable {
    package var limits = DecoderLimits()
    /// True: payloads that are not a JSON object are refused with status 1. False only for
    /// measurements with senders whose payload is not JSON.
    package var checksJSON = true
    /// How long an error response is delayed, and the close that stands for one after command 0.
    /// The session reads and discards meanwhile.
    package var answerDelay = Duration.zero
    /// False: error responses carry identifier 0 ("unknown") in place of the frame's own.
    package var namesRefusedFrame = true
    /// The same for the error response to a known-bad probe.
    package var namesProbe = true
    /// How many bytes a client may still send after the error response before both directions are
    /// closed. 64 MiB is more than the socket buffers and the largest window of a sender together.
    package var drainByteLimit = 64 << 20
    /// How long a client may take to close after the error response.
    package var drainTimeLimit = Duration.seconds(10)
    /// A connection on which nothing arrives is closed after this long, about as by Apple's
    /// gateway.
    package var idleLimit = Duration.seconds(2 * 60 * 60)
    /// A frame must be complete this long after its first byte.
    package var frameTimeLimit = Duration.seconds(60)

    package init() {}
  }

  /// What has happened on one connection so far.
  package struct Counts: Hashable, Sendable {
    package var accepted = 0
    /// Frames after a refused one, or after the gateway's own end. Frames behind one of unknown
    /// length cannot be counted.
    package var discarded = 0
    package var bytes = 0
    package var refusal: Refusal?

    package init() {}
  }
}
