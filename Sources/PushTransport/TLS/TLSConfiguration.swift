internal import COpenSSL

package enum TLSVersion: Int32, Sendable, Hashable, CaseIterable, Comparable {
  case tls12 = 0x0303
  case tls13 = 0x0304

  package static func < (left: TLSVersion, right: TLSVersion) -> Bool { left.rawValue < right.rawValue }
}

/// Names of protocols as ALPN spells them.
package enum ApplicationProtocol {
  package static let http2 = "h2"
}

/// Which certificate authorities are believed.
package enum Trust: Sendable, Hashable {
  /// The system's roots.
  case system
  /// A PEM file with one or more CA certificates, and nothing else.
  case file(String)
}

/// How a client connects.
package struct TLSClientConfiguration: Sendable {
  /// What we show when the server asks; nil: nothing.
  package var credential: Credential?
  package var trust: Trust
  package var versions: ClosedRange<TLSVersion>
  /// Protocols offered by ALPN (RFC 7301), best first, such as ``ApplicationProtocol/http2``. If there are any, the server must pick one of them.
  package var applicationProtocols: [String] = []

  package init(credential: Credential?, trust: Trust = .system, versions: ClosedRange<TLSVersion> = .tls12 ... .tls13) {
    self.credential = credential
    self.trust = trust
    self.versions = versions
  }
}

/// What a server asks of its clients.
package struct ClientCertificatePolicy: Sendable {
  /// The alert by which a client's certificate is refused.
  package enum Refusal: Sendable, Hashable, CaseIterable { case bad, revoked, expired, unknown, unknownAuthority }
  package enum Request: Sendable, Hashable { case none, optional, required }

  package var request: Request
  /// The authorities that a client's certificate must come from; nil: any certificate will do.
  package var trust: Trust?
  /// Has the last word on a certificate that has passed so far; nil accepts it. Called on the connection's event loop, in the handshake.
  package var refuse: (@Sendable (PeerIdentity) -> Refusal?)?

  package init(request: Request, trust: Trust? = nil, refuse: (@Sendable (PeerIdentity) -> Refusal?)? = nil) {
    self.request = request
    self.trust = trust
    self.refuse = refuse
  }

  package static let none = ClientCertificatePolicy(request: .none)
}

/// How a server answers.
package struct TLSServerConfiguration: Sendable {
  package var credential: Credential
  package var clients: ClientCertificatePolicy
  package var versions: ClosedRange<TLSVersion>
  /// Protocols that the server speaks, best first: the first one that a client offers is picked, and a client that offers others only is refused by the
  /// alert for that. One that offers none at all is let in: see ``TLSSession/applicationProtocol``.
  package var applicationProtocols: [String] = []
  /// Off by default: some old clients take the ticket of TLS 1.3 for an answer (BinaryProtocol.md, "Decoding rules").
  package var sendsTickets = false

  package init(credential: Credential, clients: ClientCertificatePolicy, versions: ClosedRange<TLSVersion> = .tls12 ... .tls13) {
    self.credential = credential
    self.clients = clients
    self.versions = versions
  }
}
