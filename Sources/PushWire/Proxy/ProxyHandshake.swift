/// The conversation with a proxy until it has opened the way to a host: a value without IO. The
/// caller bounds its time.
package struct ProxyHandshake: Sendable {
  package enum Ending: Hashable, Sendable {
    /// What is sent and received from now on is the host's. `rest` stood behind the proxy's answer.
    case open(rest: [UInt8])
    /// The end of a sentence that begins with the proxy, such as `answered 403 Forbidden: …`: what
    /// it said, and what to do.
    case refused(String)
  }

  private enum Exchange {
    case connect(ConnectExchange)
    case socks(SOCKSExchange)
  }

  /// All that a proxy may say before the way is open.
  package static let answerByteCountLimit = 16 * 1024

  private var exchange: Exchange
  /// What has been received, and is not understood yet.
  private var unread: [UInt8] = []
  private var receivedByteCount = 0

  package init(_ scheme: ProxyScheme, _ request: ProxyRequest) {
    exchange =
      switch scheme {
      case .http, .https: .connect(ConnectExchange(request))
      case .socks5: .socks(SOCKSExchange(request))
      }
  }

  /// What is sent first.
  package var opening: [UInt8] {
    switch exchange {
    case .connect(let exchange): exchange.opening
    case .socks(let exchange): exchange.opening
    }
  }

  /// Bytes from the proxy, however they are divided. Call it until it has returned an ending.
  ///
  /// - Parameter output: gets what is to be sent.
  /// - Returns: nil: the answer is not complete.
  package mutating func receive(_ bytes: [UInt8], output: inout [UInt8]) -> Ending? {
    receivedByteCount += bytes.count
    unread += bytes
    let ending: Ending?
    switch exchange {
    case .connect(var exchange):
      ending = exchange.read(&unread)
      self.exchange = .connect(exchange)
    case .socks(var exchange):
      ending = exchange.read(&unread, output: &output)
      self.exchange = .socks(exchange)
    }
    if ending == nil, receivedByteCount > Self.answerByteCountLimit {
      return .refused("has answered with more than \(Self.answerByteCountLimit) bytes; check that it is a proxy")
    }
    return ending
  }
}
