internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// A client that speaks TLS and knows nothing of the protocol. It sends given bytes and keeps what
/// it receives.
final class RawClient: LinkDelegate {
  private struct State {
    var received: [UInt8] = []
    var isOpen = false
    var closure: LinkClosure?
    var link: (any Link)?
    /// Sent repeatedly while the link is writable.
    var flood: [UInt8] = []
    var floodLimit = 0
    var sent = 0
  }

  private let state = Watched(State())
  private let loop: NIOLoop

  private init(_ loop: NIOLoop) {
    self.loop = loop
  }

  /// Runs `body` with a function that makes clients of one simulator. All run on one thread.
  static func with(
    _ simulator: GatewaySimulator,
    _ body: (_ connect: (_ topic: String, _ toFeedback: Bool) async throws -> RawClient) async throws -> Void
  ) async throws {
    let loops = LoopGroup(threads: 1)
    let loop = loops.loops[0]
    do {
      try await body { topic, toFeedback in
        let certificates = try #require(simulator.certificates)
        let files = try #require(certificates.apps[topic])
        let configuration = TLSClientConfiguration(
          credential: try Credential.load(files, validAt: nil), trust: .file(certificates.authority))
        let port = toFeedback ? simulator.feedbackPort : simulator.gatewayPort
        let dialer = SocketDialer(host: "127.0.0.1", port: port, context: try TLSContext(client: configuration))
        let client = RawClient(loop)
        loop.execute {
          let link = dialer.dial(on: loop, delegate: client)
          client.state.change { $0.link = link }
        }
        await client.state.wait { $0.isOpen || $0.closure != nil }
        return client
      }
    } catch {
      await loops.shutDown()
      throw error
    }
    await loops.shutDown()
  }

  var closure: LinkClosure? { state.read { $0.closure } }

  func send(_ bytes: [UInt8]) {
    loop.execute { [self] in
      let link = state.read { $0.link }
      unsafe bytes.withUnsafeBytes { unsafe link?.send($0) }
    }
  }

  /// Sends `block` at full speed until the link closes or `limit` blocks are sent.
  func flood(_ block: [UInt8], limit: Int) {
    state.change {
      $0.flood = block
      $0.floodLimit = limit
    }
    loop.execute { [self] in pump() }
  }

  /// Waits until a flood has been written to the socket.
  func flooded() async { await state.wait { $0.sent >= $0.floodLimit || $0.closure != nil } }

  /// Waits for the end and returns the received bytes.
  func ended() async -> [UInt8] {
    await state.wait { $0.closure != nil }
    return state.read { $0.received }
  }

  func close() {
    loop.execute { [self] in state.read { $0.link }?.close() }
  }

  private func pump() {
    let (link, block) = state.read { ($0.link, $0.flood) }
    guard let link, !block.isEmpty else { return }
    while link.isWritable, state.read({ $0.sent < $0.floodLimit && $0.closure == nil }) {
      unsafe block.withUnsafeBytes { unsafe link.send($0) }
      state.change { $0.sent += 1 }
    }
  }

  func linkOpened(_ link: any Link) { state.change { $0.isOpen = true } }
  func link(_ link: any Link, received bytes: UnsafeRawBufferPointer) {
    state.change { unsafe $0.received.append(contentsOf: bytes) }
  }
  func link(_ link: any Link, isWritable: Bool) { pump() }
  func linkClosed(_ link: any Link, reason: LinkClosure) { state.change { $0.closure = reason } }
}
