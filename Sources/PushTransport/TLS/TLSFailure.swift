internal import COpenSSL

/// Why a TLS session failed. Each description is one sentence.
package enum TLSFailure: Error, Hashable, CustomStringConvertible {
  /// The peer refused the local certificate by an alert, in the handshake (TLS 1.2) or after it
  /// (TLS 1.3).
  case credentialRefused(String)
  /// The peer's certificate is not trusted: unknown issuer, another name, expired, or missing.
  case peerNotTrusted(String)
  /// The handshake failed for another reason: no common version, the peer does not use TLS, …
  case handshakeFailed(String)
  /// The established session failed.
  case broken(String)

  package var description: String {
    switch self {
    case .credentialRefused(let sentence), .peerNotTrusted(let sentence), .handshakeFailed(let sentence),
      .broken(let sentence):
      sentence
    }
  }

  /// OpenSSL's reason for an alert is the alert's number plus this.
  private static let alertOffset: Int32 = 1000

  /// The alerts by which a peer refuses a certificate (RFC 8446, section 6.2, and RFC 5246).
  private static let certificateAlerts: [Int32: String] = [
    41: "it demands a certificate and got none",
    42: "bad certificate",
    43: "unsupported certificate",
    44: "certificate revoked",
    45: "certificate expired",
    46: "certificate unknown",
    48: "unknown certificate authority",
    49: "access denied",
    116: "it demands a certificate and got none",
  ]
  private static let handshakeFailureAlert: Int32 = 40
  private static let versionAlert: Int32 = 70
  private static let noApplicationProtocolAlert: Int32 = 120

  /// Classifies a failed call by the thread's error queue. Empties the queue.
  ///
  /// - Parameters:
  ///   - isEstablished: whether the handshake was complete.
  ///   - isCredentialAccepted: whether the peer, a server, has shown that it accepts the client's
  ///     certificate.
  ///   - certificateRequested: whether the peer, a server, has asked for the client's certificate.
  ///   - distrust: the result of this side's check of the peer's certificate.
  static func classify(
    isServer: Bool, isEstablished: Bool, isCredentialAccepted: Bool, certificateRequested: Bool, distrust: String?
  )
    -> TLSFailure
  {
    let first = OpenSSLErrors.first()
    let text = OpenSSLErrors.take()
    if let distrust { return .peerNotTrusted(distrust) }
    guard let first, first.library == ERR_LIB_SSL else {
      return isEstablished ? .broken("TLS failed: \(text)") : .handshakeFailed("TLS handshake failed: \(text)")
    }
    let peer = isServer ? "client" : "server"
    let alert = first.reason - alertOffset
    if alert >= 0 {
      if isCredentialAccepted { return .broken("the \(peer) sent a TLS alert: \(text)") }
      if let reason = certificateAlerts[alert] {
        // On a server this alert means that the client does not trust the server. It does not
        // concern a client's credential.
        return isServer
          ? .handshakeFailed("the client does not accept our certificate: \(reason)")
          : .credentialRefused("the server refused our certificate: \(reason)")
      }
      if alert == handshakeFailureAlert, certificateRequested, !isServer {
        // OpenSSL's TLS 1.2 servers send this alert to a client without a certificate. They would
        // report a missing common cipher before asking for one.
        return .credentialRefused("the server asked for our certificate and then broke off the handshake")
      }
      if alert == noApplicationProtocolAlert {
        return .handshakeFailed("the \(peer) speaks none of the protocols that we offer by ALPN")
      }
      if alert == versionAlert {
        return .handshakeFailed("there is no TLS version that we and the \(peer) both accept")
      }
      return isEstablished
        ? .broken("the \(peer) sent a TLS alert: \(text)")
        : .handshakeFailed("the \(peer) broke off the TLS handshake: \(text)")
    }
    switch first.reason {
    case SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_NO_PROTOCOLS_AVAILABLE, SSL_R_WRONG_SSL_VERSION, SSL_R_VERSION_TOO_LOW,
      SSL_R_VERSION_TOO_HIGH:
      return .handshakeFailed("there is no TLS version that we and the \(peer) both accept")
    case SSL_R_WRONG_VERSION_NUMBER, SSL_R_HTTP_REQUEST, SSL_R_HTTPS_PROXY_REQUEST, SSL_R_PACKET_LENGTH_TOO_LONG,
      SSL_R_BAD_PROTOCOL_VERSION_NUMBER:
      if !isEstablished { return .handshakeFailed("the \(peer) does not speak TLS on this port") }
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: return .peerNotTrusted("the client showed no certificate")
    case SSL_R_NO_APPLICATION_PROTOCOL:
      return .handshakeFailed("the \(peer) offers by ALPN none of the protocols that we speak")
    case SSL_R_NO_SHARED_CIPHER: return .handshakeFailed("there is no cipher that we and the \(peer) both accept")
    default: break
    }
    return isEstablished ? .broken("TLS failed: \(text)") : .handshakeFailed("TLS handshake failed: \(text)")
  }
}
