package import PushWire

/// The decision on a frame that keeps the rules of the protocol.
package enum Verdict: Hashable, Sendable {
  case accept
  /// The frame is accepted, and then something happens to the connection.
  case acceptThen(ConnectionInterruption)
  /// An error response with this status and the frame's identifier. Command 0 has no error
  /// response: the connection is closed without one. All that follows on the connection is
  /// discarded.
  case refuse(GatewayStatus)
  /// Not accepted, and the connection ends without an error response, whatever the command. Only a
  /// poison search by the sender can find the frame.
  case poison
}

/// An interruption of a connection although no frame is at fault.
package enum ConnectionInterruption: Hashable, Sendable {
  /// Status 10 with the identifier of the last accepted frame, or 0 when there is none.
  case shutDown
  /// The stream ends without an error response.
  case close
  /// The connection is reset without an error response.
  case reset
  /// Nothing is read for this long.
  case stopReading(Duration)
}

/// Decides on the frames of one connection. In the simulator the fault rules do; another policy
/// needs no change of the session.
package protocol FramePolicy: ~Copyable {
  /// Called once, before the first byte. Nil: the connection begins as usual.
  mutating func opened() -> ConnectionInterruption?
  /// Called once for every frame that keeps the rules, in order, until a verdict ends the
  /// connection. Views into the frame are valid during the call only.
  mutating func verdict(on frame: DecodedFrame) -> Verdict
  /// Called with the frame that is refused, by a verdict or by a rule of the protocol. At most once
  /// for each connection.
  mutating func refused(_ frame: DecodedFrame, as refusal: Refusal)
}

/// Why a frame was not accepted.
package enum Refusal: Hashable, Sendable {
  case status(GatewayStatus)
  /// An empty token in a frame with an identifier. The sender asks for an error response, which
  /// proves that all frames before it were accepted. Not counted as a notification.
  case probe
  case poison
}
