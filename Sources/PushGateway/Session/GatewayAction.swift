package import PushWire

/// What a gateway session asks its shell to do, in this order.
package enum GatewayAction: Hashable, Sendable {
  /// Write these six bytes, as one write.
  case send(ErrorResponse)
  /// Say that nothing more will be written (close_notify, then FIN) and go on reading: what still arrives is handed to the session, which discards it.
  case halfClose
  /// Close both directions. The session's last action.
  case close
  /// Close with a RST, so that even bytes on their way are lost. The session's last action.
  case reset
  /// Read nothing from the socket before this time. What has been read already may still be handed over.
  case stopReading(until: Instant)
  /// Call the session's `woken(now:)` at this time. Replaces an earlier one.
  case wake(at: Instant)
}
