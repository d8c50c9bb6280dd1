/// The exchange with a SOCKS proxy (RFC 1928), with a username and a password if there are any
/// (RFC 1929).
struct SOCKSExchange: Sendable {
  /// What the proxy answers next.
  private enum Phase { case method, login, reply }

  private enum Method {
    static let none: UInt8 = 0
    static let password: UInt8 = 2
    static let refused: UInt8 = 0xFF
  }

  private static let version: UInt8 = 5
  private static let loginVersion: UInt8 = 1
  private static let connect: UInt8 = 1

  private let request: ProxyRequest
  private var phase = Phase.method

  init(_ request: ProxyRequest) { self.request = request }

  var opening: [UInt8] {
    let methods = request.credentials == nil ? [Method.none] : [Method.none, Method.password]
    return [Self.version, UInt8(methods.count)] + methods
  }

  /// Removes from `bytes` what it has understood.
  mutating func read(_ bytes: inout [UInt8], output: inout [UInt8]) -> ProxyHandshake.Ending? {
    while let first = bytes.first {
      guard first == (phase == .login ? Self.loginVersion : Self.version) else {
        return .refused("does not speak SOCKS 5; check scheme and port of its URL")
      }
      guard bytes.count >= 2 else { return nil }
      switch phase {
      case .method:
        if let refusal = choose(bytes[1], output: &output) { return .refused(refusal) }
        bytes.removeFirst(2)
      case .login:
        guard bytes[1] == 0 else {
          return .refused("answered \(bytes[1]): it does not accept this username with this password; check both")
        }
        bytes.removeFirst(2)
        ask(&output)
      case .reply:
        // A refusal may be shorter than an answer.
        guard bytes[1] == 0 else { return .refused(refusal(bytes[1])) }
        guard bytes.count >= 5 else { return nil }
        let addressByteCount: Int
        switch bytes[3] {
        case 1: addressByteCount = 4
        case 3: addressByteCount = 1 + Int(bytes[4])
        case 4: addressByteCount = 16
        default: return .refused("answered with an address of the unknown kind \(bytes[3]); check that it is a proxy")
        }
        guard bytes.count >= 4 + addressByteCount + 2 else { return nil }
        return .open(rest: Array(bytes[(4 + addressByteCount + 2)...]))
      }
    }
    return nil
  }

  /// The proxy has chosen how the client shows who it is.
  private mutating func choose(_ method: UInt8, output: inout [UInt8]) -> String? {
    switch (method, request.credentials) {
    case (Method.none, _): ask(&output)
    case (Method.password, let credentials?):
      phase = .login
      output += [Self.loginVersion, UInt8(clamping: credentials.username.count)] + credentials.username
      output += [UInt8(clamping: credentials.password.count)] + credentials.password
    case (Method.refused, nil):
      return "answered 255 (no acceptable method): it demands a username and a password; give them with the proxy"
    case (Method.refused, _):
      return "answered 255 (no acceptable method): it wants neither none nor a username and a password; "
        + "let it accept one of them"
    default:
      return "answered with the method \(method), which was not offered; check its settings"
    }
    return nil
  }

  private mutating func ask(_ output: inout [UInt8]) {
    phase = .reply
    output += [Self.version, Self.connect, 0]
    switch request.host {
    case .name(let name): output += [3, UInt8(clamping: name.utf8.count)] + Array(name.utf8)
    case .ipv4(let bytes, _): output += [1] + bytes
    case .ipv6(let bytes, _): output += [4] + bytes
    }
    output += [UInt8(request.port >> 8), UInt8(truncatingIfNeeded: request.port)]
  }

  private func refusal(_ code: UInt8) -> String {
    let authority = request.authority
    let (meaning, advice) =
      switch code {
      case 1: ("general failure", "it did not reach \(authority); look at its log")
      case 2: ("not allowed", "it does not let this client reach \(authority); ask for that at its operator")
      case 3: ("network unreachable", "it has no way to \(authority)")
      case 4: ("host unreachable", "it does not reach \(authority), or cannot resolve the name")
      case 5: ("connection refused", "nothing listens at \(authority)")
      case 6: ("time to live expired", "it has no way to \(authority)")
      case 7: ("command not supported", "it opens no connections for clients; check its settings")
      case 8: ("address type not supported", "it cannot be asked for \(authority) in this form")
      default: ("unknown", "it does not open the way to \(authority); look at its log")
      }
    return "answered \(code) (\(meaning)): \(advice)"
  }
}
