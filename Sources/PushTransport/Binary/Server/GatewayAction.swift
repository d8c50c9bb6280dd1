package import PushWire

/// What the shell of a gateway session must do, in this order.
package enum GatewayAction: Hashable, Sendable {
  /// Write these six bytes, as one write.
  case send(ErrorResponse)
  /// Send close_notify, then FIN, and keep reading. The session discards what still arrives.
  case halfClose
  /// Close both directions. The session's last action.
  case close
  /// Close with a RST, which also loses bytes in flight. The session's last action.
  case reset
  /// Read nothing from the socket before this time. Bytes that were read before may still be handed
  /// over.
  case stopReading(until: Instant)
  /// Call the session's `woken(now:)` at this time. Replaces the time of an earlier action.
  case wake(at: Instant)
}
