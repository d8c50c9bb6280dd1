/// A host and a port, as in `gateway.example.com:2195` or `[::1]:2195`.
package struct Endpoint: Hashable, Sendable, Codable, CustomStringConvertible {
  package var host: String
  package var port: Int

  package init(host: String, port: Int) { (self.host, self.port) = (host, port) }

  /// Nil unless there are both a host and a port from 1 to 65535.
  package init?(_ text: String) {
    guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
      (1...65535).contains(port)
    else { return nil }
    var host = text[..<colon]
    if host.hasPrefix("["), host.hasSuffix("]") {
      host = host.dropFirst().dropLast()
    } else if host.contains(":") {
      return nil
    }
    guard !host.isEmpty, !host.contains(where: \.isWhitespace) else { return nil }
    self.init(host: String(host), port: port)
  }

  package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

/// Knows the names of Apple's hosts.
package enum AppleHosts {
  package static func isAppleName(_ host: String) -> Bool {
    let labels = host.lowercased().split(separator: ".").map(String.init)
    let domains = [
      ["apple", "com"], ["apple", "com", "cn"], ["icloud", "com"], ["aaplimg", "com"], ["apple-dns", "net"],
    ]
    return domains.contains { labels.count >= $0.count && Array(labels.suffix($0.count)) == $0 }
  }
}
