/// What is spoken with a proxy.
package enum ProxyScheme: String, Hashable, Sendable, CaseIterable, Codable {
  /// HTTP's CONNECT (RFC 9110, section 9.3.6).
  case http
  /// The same over TLS.
  case https
  /// SOCKS version 5 (RFC 1928).
  case socks5
}

/// What a proxy is asked for: a way to one host.
package struct ProxyRequest: Hashable, Sendable {
  package enum Host: Hashable, Sendable {
    /// The proxy resolves it. Visible ASCII characters, from 1 to 255.
    case name(String)
    /// Its four bytes, and the text.
    case ipv4([UInt8], String)
    /// Its sixteen bytes, and the text without brackets.
    case ipv6([UInt8], String)
  }

  package let host: Host
  package let port: UInt16
  /// Nil: none are shown.
  package let credentials: ProxyCredentials?

  package init(host: Host, port: UInt16, credentials: ProxyCredentials?) {
    (self.host, self.port, self.credentials) = (host, port, credentials)
  }

  /// SOCKS has one byte for the length.
  package static let nameByteCountLimit = 255

  /// Whether a proxy can be asked for a host of this name.
  package static func isUsable(name: String) -> Bool {
    (1...nameByteCountLimit).contains(name.utf8.count) && name.utf8.allSatisfy { (0x21...0x7E).contains($0) }
  }

  /// Such as `gateway.example.com:2195` or `[::1]:2195`.
  package var authority: String {
    switch host {
    case .name(let text), .ipv4(_, let text): "\(text):\(port)"
    case .ipv6(_, let text): "[\(text)]:\(port)"
    }
  }
}

/// Who a proxy is told that asks. Never printed.
package struct ProxyCredentials: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
  let username: [UInt8]
  let password: [UInt8]

  /// RFC 1929 has one byte for each length. The same counts for HTTP.
  package static let byteCountLimit = 255

  /// Each has from 1 to ``byteCountLimit`` bytes. The name has no colon for HTTP.
  package init(username: [UInt8], password: [UInt8]) { (self.username, self.password) = (username, password) }

  package var description: String { "(secret)" }
  package var customMirror: Mirror { Mirror(self, children: [:]) }
}
