internal import PushTransport
package import PushWire

extension AppConfiguration {
  /// A proxy on the way to the gateway and the feedback service. It resolves their names; TLS goes
  /// through it to the gateway, so it sees nothing of what is sent.
  ///
  /// ```swift
  /// news.proxy = AppConfiguration.Proxy(.http, host: "proxy.example.com", port: 3128)
  /// news.proxy?.login = .username("carillon", passwordFile: "proxy.pass")
  /// ```
  ///
  /// The environment's `HTTPS_PROXY` is not followed.
  public struct Proxy: Hashable, Sendable, CustomStringConvertible {
    /// What is spoken with the proxy.
    public var scheme: Scheme
    /// A name or an address.
    public var host: String
    /// From 1 to 65535.
    public var port: Int
    /// Shown to the proxy. Default nil: nothing. Only with ``Scheme/https`` it is encrypted on the
    /// way to the proxy.
    public var login: Login?
    /// A PEM file with the authorities that the proxy's certificate is checked against, for
    /// ``Scheme/https``. Default nil: the system's.
    public var trustedAuthorities: String?

    /// Names a proxy.
    public init(_ scheme: Scheme, host: String, port: Int) {
      (self.scheme, self.host, self.port) = (scheme, host, port)
    }

    /// Such as `http://proxy.example.com:3128`, without the login.
    public var description: String { "\(scheme)://\(Endpoint(host: host, port: port))" }
  }
}

extension AppConfiguration.Proxy {
  /// What is spoken with the proxy.
  public struct Scheme: Hashable, Sendable, CustomStringConvertible {
    package let wire: ProxyScheme

    /// HTTP's CONNECT.
    public static let http = Scheme(wire: .http)
    /// The same over TLS: the proxy's certificate must be for its host.
    public static let https = Scheme(wire: .https)
    /// SOCKS version 5.
    public static let socks5 = Scheme(wire: .socks5)

    /// `http`, `https` or `socks5`.
    public var description: String { wire.rawValue }
  }

  /// A username with its password, each from 1 to 255 bytes: Basic authentication over HTTP, RFC
  /// 1929 over SOCKS.
  public struct Login: Hashable, Sendable {
    package var username: String
    package var password: ProxyPassword

    /// - Parameters:
    ///   - name: without a colon for HTTP.
    ///   - passwordFile: its first line is the password. The file must be its owner's alone (`chmod
    ///     600`).
    public static func username(_ name: String, passwordFile: String) -> Login {
      Login(username: name, password: .file(passwordFile))
    }

    /// The same with a password from memory, which is not written to a file, a journal or a log.
    public static func username(_ name: String, password: String) -> Login {
      Login(username: name, password: .memory(Secret(Array(password.utf8))))
    }
  }
}

/// Where the password for a proxy is.
package enum ProxyPassword: Hashable, Sendable, Codable {
  /// The first line of a file.
  case file(String)
  case memory(Secret<[UInt8]>)
}

extension AppConfiguration.Proxy {
  /// Reads `http://host:port`, `https://…` or `socks5://…`. The text is not repeated in an error,
  /// because it may have a password.
  package init(url: String) throws(ValueError) {
    let schemes = ProxyScheme.allCases.map { "\($0)://host:port" }.joined(separator: " or ")
    guard let mark = url.firstRange(of: "://"),
      let scheme = ProxyScheme(rawValue: url[..<mark.lowerBound].lowercased())
    else { throw ValueError("must be \(schemes)") }
    var rest = url[mark.upperBound...]
    if rest.last == "/" { rest.removeLast() }
    guard !rest.contains("@") else {
      throw ValueError("has a username in its URL, which logs would show; name it beside, with a password file")
    }
    guard let endpoint = Endpoint(String(rest)) else { throw ValueError("must be \(schemes), with its port") }
    self.init(Scheme(wire: scheme), host: endpoint.host, port: endpoint.port)
  }

  /// Why there is no such proxy, as the end of a sentence; nil: there may be.
  package var problem: String? {
    guard (1...65535).contains(port), ProxyRequest.isUsable(name: host) else {
      return "must be a host, and a port from 1 to 65535, not \(self)"
    }
    if trustedAuthorities != nil, scheme != .https { return "has a certificate to check only with https" }
    guard let login else { return nil }
    let limits = 1...ProxyCredentials.byteCountLimit
    guard limits.contains(login.username.utf8.count) else {
      return "needs a username of \(limits.lowerBound) to \(limits.upperBound) bytes"
    }
    if scheme != .socks5, login.username.contains(":") { return "cannot have a colon in its username over HTTP" }
    if case .memory(let password) = login.password, !limits.contains(password.value.count) {
      return "needs a password of \(limits.lowerBound) to \(limits.upperBound) bytes"
    }
    return nil
  }

  /// The files that it names.
  var files: [String] {
    var files = [trustedAuthorities].compactMap { $0 }
    if case .file(let path)? = login?.password { files.append(path) }
    return files
  }

  /// The same with every path changed.
  func mapPaths(_ change: (String) -> String) -> AppConfiguration.Proxy {
    var proxy = self
    proxy.trustedAuthorities = trustedAuthorities.map(change)
    if case .file(let path)? = login?.password { proxy.login?.password = .file(change(path)) }
    return proxy
  }

  /// Reads the files that it names.
  func resolve() throws(CredentialError) -> SocketDialer.Proxy {
    var credentials: ProxyCredentials?
    if let login {
      let password =
        switch login.password {
        case .file(let path): try SecretLine.password.read(path)
        case .memory(let secret): secret.value
        }
      credentials = ProxyCredentials(username: Array(login.username.utf8), password: password)
    }
    return try SocketDialer.Proxy(
      scheme.wire, host: host, port: port, credentials: credentials,
      trust: trustedAuthorities.map(Trust.file) ?? .system)
  }
}
