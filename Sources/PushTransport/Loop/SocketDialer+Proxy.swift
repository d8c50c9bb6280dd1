package import PushWire

extension SocketDialer {
  /// A proxy that connects to the host instead of this machine. It resolves the host's name.
  package struct Proxy: Sendable, CustomStringConvertible {
    package let scheme: ProxyScheme
    package let host: String
    package let port: Int
    let credentials: ProxyCredentials?
    /// A client's, for ``ProxyScheme/https``.
    let context: TLSContext?

    /// - Parameters:
    ///   - credentials: nil: none are shown.
    ///   - trust: checks the certificate of a proxy that is reached over TLS; others have none.
    package init(
      _ scheme: ProxyScheme, host: String, port: Int, credentials: ProxyCredentials?, trust: Trust = .system
    ) throws(CredentialError) {
      (self.scheme, self.host, self.port, self.credentials) = (scheme, host, port, credentials)
      context = scheme == .https ? try TLSContext(client: TLSClientConfiguration(credential: nil, trust: trust)) : nil
    }

    /// Such as `the proxy proxy.example.com:3128`.
    package var description: String { "the proxy \(host.contains(":") ? "[\(host)]" : host):\(port)" }
  }
}
