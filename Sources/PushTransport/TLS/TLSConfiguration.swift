internal import COpenSSL

package enum TLSVersion: Int32, Sendable, Hashable, CaseIterable, Comparable {
  case tls12 = 0x0303
  case tls13 = 0x0304

  package static func < (left: TLSVersion, right: TLSVersion) -> Bool { left.rawValue < right.rawValue }
}

/// The ALPN names of protocols.
package enum ApplicationProtocol {
  package static let http2 = "h2"
}

/// Which certificate authorities are trusted.
package enum Trust: Sendable, Hashable {
  /// The system's roots.
  case system
  /// A PEM file with one or more CA certificates, and nothing else.
  case file(String)
}

/// How a client connects.
package struct TLSClientConfiguration: Sendable {
  /// The certificate that is presented if the server asks for one; nil: none.
  package var credential: Credential?
  package var trust: Trust
  package var versions: ClosedRange<TLSVersion>
  /// The SHA-256 of the only certificate that the server may present, whatever its names and its
  /// issuer; nil: any certificate that ``trust`` covers.
  package var onlyCertificate: [UInt8]?
  /// The protocols offered by ALPN (RFC 7301), best first, for example
  /// ``ApplicationProtocol/http2``. If there are any, the server must select one of them.
  package var applicationProtocols: [String] = []

  package init(credential: Credential?, trust: Trust = .system, versions: ClosedRange<TLSVersion> = .tls12 ... .tls13) {
    (self.credential, self.trust, self.versions) = (credential, trust, versions)
  }

  /// The SHA-256 of the first certificate in a PEM file.
  package static func fingerprint(ofFile path: String) throws(CredentialError) -> [UInt8] {
    guard let first = try PEMReading.certificates(SecretFile.read(path).bytes, file: path).first else {
      throw .certificateMissing(file: path)
    }
    return CertificateFields(first).sha256
  }
}

/// What a server demands of its clients' certificates.
package struct ClientCertificatePolicy: Sendable {
  /// The alert that refuses a client's certificate.
  package enum Refusal: Sendable, Hashable, CaseIterable { case bad, revoked, expired, unknown, unknownAuthority }
  package enum Request: Sendable, Hashable { case none, optional, required }

  package var request: Request
  /// The authorities that may have issued a client's certificate; nil: any certificate is accepted.
  package var trust: Trust?
  /// Decides last about a certificate that has passed all other checks; nil accepts it. Called on
  /// the connection's event loop during the handshake.
  package var refuse: (@Sendable (PeerIdentity) -> Refusal?)?
  /// Decides alone, instead of ``refuse``: also about certificates that ``trust`` does not cover,
  /// or whose dates have passed, with the reason. That the client has the certificate's key is
  /// checked in any case. Called as ``refuse`` is.
  package var judge: (@Sendable (PeerIdentity, _ distrust: String?) -> Refusal?)?

  package init(request: Request, trust: Trust? = nil, refuse: (@Sendable (PeerIdentity) -> Refusal?)? = nil) {
    (self.request, self.trust, self.refuse) = (request, trust, refuse)
  }

  package static let none = ClientCertificatePolicy(request: .none)
}

/// How a server accepts connections.
package struct TLSServerConfiguration: Sendable {
  package var credential: Credential
  package var clients: ClientCertificatePolicy
  package var versions: ClosedRange<TLSVersion>
  /// The protocols of the server, best first. The first one that a client offers is selected. A
  /// client that offers only others is refused with ALPN's alert, and a client that offers none is
  /// accepted: see ``TLSSession/applicationProtocol``.
  package var applicationProtocols: [String] = []
  /// Off by default, because some old clients mistake a TLS 1.3 ticket for an answer
  /// (BinaryProtocol.md, "Decoding rules").
  package var sendsTickets = false
  /// Over TLS 1.2, offers nothing but ciphers with forward secrecy and authenticated encryption, as
  /// all of TLS 1.3 are. Off by default: clients of the binary protocol are old.
  package var isModern = false
  /// Accepts TLS 1.0 or 1.1 too, with the weak signatures that these need. Nil: it does not.
  package var oldestVersion: OldVersion?

  package enum OldVersion: Int32, Sendable, Hashable {
    case tls10 = 0x0301
    case tls11 = 0x0302
  }

  package init(
    credential: Credential, clients: ClientCertificatePolicy, versions: ClosedRange<TLSVersion> = .tls12 ... .tls13
  ) {
    (self.credential, self.clients, self.versions) = (credential, clients, versions)
  }
}
