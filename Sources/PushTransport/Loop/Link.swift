/// One connection to a gateway as the engine sees it: a stream of plain bytes over TLS and a
/// socket.
///
/// Every member is called on the loop that the link was dialled on, and every delegate call is made
/// there.
package protocol Link: AnyObject, Sendable {
  /// Encrypts `bytes` and passes them to the socket in one write. Ignored before the link has
  /// opened and after it has closed.
  ///
  /// The bytes are copied, so they may be overwritten when the call returns. A link accepts more
  /// than the socket can take; the caller must stop while ``isWritable`` is false.
  func send(_ bytes: UnsafeRawBufferPointer)
  /// False while more bytes than the link's high-water mark wait for the socket.
  var isWritable: Bool { get }
  /// True when the socket has taken all bytes.
  var isIdle: Bool { get }
  /// How many bytes on the wire everything sent so far has become. It only grows.
  var handedOverByteCount: UInt64 { get }
  /// How many of those bytes the peer's system has not acknowledged, in the socket or before it.
  var unacknowledgedByteCount: Int { get }
  /// Stops or resumes reading from an open link. What has been decrypted may still be delivered,
  /// and the peer's close is noticed only while it reads. A link reads from the beginning on.
  func setReading(_ reads: Bool)
  /// Sends close_notify and closes. ``LinkDelegate/linkClosed(_:reason:)`` follows, with
  /// ``LinkClosure/byUs``.
  func close()
}

extension Link {
  /// For links whose owners never stop reading.
  package func setReading(_ reads: Bool) {}
}

/// What a link reports to its owner. Each call has the link as a parameter, so that an owner with a
/// new link can ignore calls of the old one.
package protocol LinkDelegate: AnyObject, Sendable {
  /// TCP is connected and the TLS handshake is complete.
  ///
  /// With TLS 1.3 the peer may still refuse the client certificate. The link then closes with
  /// ``LinkClosure/credentialRefused(_:)``.
  func linkOpened(_ link: any Link)
  /// Plain bytes from the peer, in order, at least one. The buffer is valid only during the call.
  func link(_ link: any Link, received bytes: UnsafeRawBufferPointer)
  /// ``Link/isWritable`` changed. True means that the bytes waiting for the socket have fallen to
  /// the low-water mark.
  func link(_ link: any Link, isWritable: Bool)
  /// The last call for this link. Everything that the peer sent before has been delivered.
  func linkClosed(_ link: any Link, reason: LinkClosure)
}

/// Why a link closed or never opened.
package enum LinkClosure: Hashable, Sendable {
  /// The peer closed with close_notify.
  case byPeer
  /// The stream ended without close_notify: the peer closed silently, or the network cut the
  /// connection. The data may be incomplete.
  case truncated
  /// ``Link/close()`` was called.
  case byUs
  /// The peer or the network reset the connection.
  case reset
  /// The name could not be resolved, the connection was refused, or connecting timed out.
  case unreachable(String)
  /// The TLS handshake failed for a reason other than the client certificate: the server's is not
  /// trusted, there is no common version, …
  case handshakeFailed(String)
  /// The peer refused the client certificate, in the handshake (TLS 1.2) or after it (TLS 1.3).
  case credentialRefused(String)
  /// TLS or the socket failed in another way.
  case failed(String)
}

/// Opens links. It is the engine's only way to the network.
package protocol Dialer: Sendable {
  /// Starts to connect and returns at once. The delegate is called on `loop`, and not before this
  /// call has returned.
  func dial(on loop: any Loop, delegate: any LinkDelegate) -> any Link
}
