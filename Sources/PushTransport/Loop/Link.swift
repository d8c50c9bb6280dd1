/// One connection to a gateway as the engine sees it: plain bytes in order, with TLS and the socket behind them.
///
/// Every member is called on the loop that the link was dialled on, and every delegate call comes there.
package protocol Link: AnyObject, Sendable {
  /// Encrypts `bytes` and hands them to the socket as one write. Allowed once the link has opened and until it has closed; ignored otherwise.
  ///
  /// The bytes are copied: they may be overwritten when the call returns. A link accepts more than the socket takes at once;
  /// the caller stops by itself while ``isWritable`` is false.
  func send(_ bytes: UnsafeRawBufferPointer)
  /// False while more than the link's high-water mark waits for the socket.
  var isWritable: Bool { get }
  /// True when everything handed over has gone to the socket.
  var isIdle: Bool { get }
  /// Bytes on the wire that what was sent has become so far; only goes up.
  var handedOverByteCount: UInt64 { get }
  /// How many of those the peer's system has not acknowledged yet, in the socket or before it.
  var unacknowledgedByteCount: Int { get }
  /// Sends close_notify and closes. ``LinkDelegate/linkClosed(_:reason:)`` follows, with ``LinkClosure/byUs``.
  func close()
}

/// What a link tells its owner. Each call names the link, so that an owner that has moved on can ignore the old one.
package protocol LinkDelegate: AnyObject, Sendable {
  /// TCP is connected and the TLS handshake is complete.
  ///
  /// With TLS 1.3 the peer may still refuse the client certificate afterwards: that comes as ``LinkClosure/credentialRefused(_:)``.
  func linkOpened(_ link: any Link)
  /// Plain bytes from the peer, in order, at least one. The buffer is valid only during the call.
  func link(_ link: any Link, received bytes: UnsafeRawBufferPointer)
  /// ``Link/isWritable`` changed. True also means: everything handed over before has gone to the socket, down to the low-water mark.
  func link(_ link: any Link, isWritable: Bool)
  /// The last call for this link. Everything that the peer had sent before was delivered first.
  func linkClosed(_ link: any Link, reason: LinkClosure)
}

/// Why a link closed or never opened.
package enum LinkClosure: Hashable, Sendable {
  /// The peer closed, and said so (close_notify).
  case byPeer
  /// The stream ended without close_notify: the peer closed without saying so, or the network cut the
  /// connection. What came may be incomplete.
  case truncated
  /// We asked for it.
  case byUs
  /// The peer reset the connection, or the network did.
  case reset
  /// The name could not be resolved, nobody listens there, or it took too long.
  case unreachable(String)
  /// The TLS handshake failed for a reason other than our certificate: theirs is not trusted, no common version, …
  case handshakeFailed(String)
  /// The peer refused our certificate, in the handshake (TLS 1.2) or after it (TLS 1.3).
  case credentialRefused(String)
  /// TLS or the socket failed in another way.
  case failed(String)
}

/// Opens links. The engine reaches the network through this alone.
package protocol Dialer: Sendable {
  /// Starts to connect and returns at once; the delegate hears how it went, on `loop`, never before this call has returned.
  func dial(on loop: any Loop, delegate: any LinkDelegate) -> any Link
}
