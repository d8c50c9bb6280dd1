internal import PushServer
internal import PushTransport

/// Where a running service is, and how its certificate is checked.
struct ServiceAddress: Hashable, Sendable, CustomStringConvertible {
  /// What proves that the other side is the service.
  enum Proof: Hashable, Sendable {
    /// No TLS.
    case none
    /// A certificate for the host, issued by an authority that is trusted.
    case authority(Trust)
    /// The certificate of this file, whatever its names and its issuer.
    case certificate(file: String)
  }

  var host: String
  var port: Int
  var proof: Proof

  init(host: String, port: Int, proof: Proof = .none) { (self.host, self.port, self.proof) = (host, port, proof) }

  /// An address as `http://127.0.0.1:8480` or `https://push.example.com`; nil for any other text.
  init?(url: String, trust: Trust = .system) {
    let isSecure = url.hasPrefix("https://")
    guard isSecure || url.hasPrefix("http://") else { return nil }
    var rest = url.dropFirst(isSecure ? 8 : 7)
    if rest.last == "/" { rest.removeLast() }
    var port = isSecure ? 443 : 80
    if let colon = rest.lastIndex(of: ":"), rest.last != "]" {
      guard let number = UInt16(rest[rest.index(after: colon)...]) else { return nil }
      port = Int(number)
      rest = rest[..<colon]
    }
    if rest.hasPrefix("["), rest.hasSuffix("]") { rest = rest.dropFirst().dropLast() }
    guard !rest.isEmpty, !rest.contains(where: { "/?#@ ".contains($0) || !$0.isASCII }) else { return nil }
    self.init(host: String(rest), port: port, proof: isSecure ? .authority(trust) : .none)
  }

  /// Where the service of a configuration listens, seen from its own machine.
  init(of configuration: ServerConfiguration) {
    let listen = configuration.api.listen
    let isAnywhere = ["0.0.0.0", "::"].contains(listen.host)
    self.init(
      host: isAnywhere ? "localhost" : listen.host, port: listen.port,
      proof: configuration.api.certificate.map { .certificate(file: $0.certificate) } ?? .none)
  }

  /// This machine, which a key does not leave.
  var isLoopback: Bool { Listen(host: host, port: port).isLoopback }

  var description: String {
    let scheme = proof == .none ? "http" : "https"
    return "\(scheme)://\(host.contains(":") ? "[\(host)]" : host):\(port)"
  }
}
