package import PushWire

extension GatewaySession {
  /// What one connection is held to. Every limit is there so that no client, broken or hostile, holds the gateway's memory or sockets for ever.
  package struct Settings: Hashable, Sendable {
    package var limits = DecoderLimits()
    /// Payloads that are not a JSON object are refused with status 1. Off only to measure with senders whose payload is no JSON.
    package var checksJSON = true
    /// How late an answer is: the session goes on reading and discarding meanwhile. Also delays the close that stands for an answer to command 0.
    package var answerDelay = Duration.zero
    /// False: answers carry identifier 0 in place of the frame's own ("not known which").
    package var namesRefusedFrame = true
    /// The same for the answer to a known-bad probe.
    package var namesProbe = true
    /// What a client may still send after the answer before the connection is closed in its face. 64 MiB is more than the socket buffers
    /// and the largest window of a sender together.
    package var drainByteLimit = 64 << 20
    /// How long a client may take to close after the answer.
    package var drainTimeLimit = Duration.seconds(10)
    /// A connection on which nothing arrives is closed after this long (about what Apple's gateway did).
    package var idleLimit = Duration.seconds(2 * 60 * 60)
    /// A frame that has begun must be complete after this long.
    package var frameTimeLimit = Duration.seconds(60)

    package init() {}
  }

  /// What has happened on one connection so far.
  package struct Counts: Hashable, Sendable {
    package var accepted = 0
    /// Frames that came after a refused one or after the end, as far as they can be told apart: behind one whose length is not known nothing can be counted.
    package var discarded = 0
    package var bytes = 0
    package var refusal: Refusal?

    package init() {}
  }
}
