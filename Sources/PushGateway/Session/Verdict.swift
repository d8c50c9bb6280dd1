package import PushWire

/// What becomes of a frame that keeps the rules of the protocol.
package enum Verdict: Hashable, Sendable {
  case accept
  /// The frame is accepted, and then something happens to the connection.
  case acceptThen(Aftermath)
  /// Answered with this status and the frame's identifier (command 0: closed without a packet). All that follows on the connection is discarded.
  case refuse(GatewayStatus)
  /// Not accepted, and the connection ends without a packet whatever the command: only the sender's own detective work can find out which frame it was.
  case poison
}

/// What happens to a connection at a point where no frame is at fault.
package enum Aftermath: Hashable, Sendable {
  /// Status 10, naming the last frame accepted (0 when there is none).
  case shutDown
  /// The stream ends, without a packet.
  case close
  /// The connection is reset, without a packet.
  case reset
  /// Nothing is read for this long.
  case stopReading(Duration)
}

/// Decides about the frames of one connection: fault rules in the simulator; another source of verdicts can take their place without touching the protocol.
package protocol FrameJudge: ~Copyable {
  /// Asked once before the first byte: nil to begin as usual.
  mutating func opened() -> Aftermath?
  /// Asked once for every frame that keeps the rules, in order, until one of them ends the connection. Views into the frame are valid during the call only.
  mutating func verdict(on frame: DecodedFrame) -> Verdict
  /// Told about the frame that is refused, by a verdict or by the rules of the protocol. At most once per connection.
  mutating func refused(_ frame: DecodedFrame, as refusal: Refusal)
}

/// Why a frame was not accepted.
package enum Refusal: Hashable, Sendable {
  case status(GatewayStatus)
  /// An empty token in a frame with an identifier: the sender asks for an answer that settles all before it. Not counted as a notification.
  case probe
  case poison
}
