internal import Foundation
internal import NIOCore
internal import NIOPosix
internal import Synchronization
internal import Testing

@testable internal import PushTransport

/// The wall clock in seconds since 1970, as certificates use it.
var now: Int64 { Int64(NIOLoop.wallClock) }

/// A directory for one test, removed with it.
final class Scratch: Sendable {
  let path: String

  init() throws {
    path = NSTemporaryDirectory() + "carillon-tls-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  func file(_ name: String) -> String { path + "/" + name }

  func write(_ text: String, to name: String, mode: Int = 0o600) throws -> String {
    try Data(text.utf8).write(to: URL(fileURLWithPath: file(name)))
    try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file(name))
    return file(name)
  }
}

/// The files of an authority, a server and an app.
struct Material {
  let scratch = Result { try Scratch() }
  let authority: CertificateAuthority
  let server: IssuedCertificate
  let app: IssuedCertificate
  let trust: Trust
  let authorityFile: String
  let directory: Scratch

  init(topic: String = "com.example.news") throws {
    directory = try scratch.get()
    authority = try CertificateAuthority(at: now)
    server = try authority.issue(.server(at: now))
    app = try authority.issue(.app(topic: topic, at: now))
    authorityFile = directory.file("ca.pem")
    try authority.write(to: authorityFile)
    trust = .file(authorityFile)
  }

  func serverContext(
    clients: ClientCertificatePolicy? = nil, versions: ClosedRange<TLSVersion> = .tls12 ... .tls13,
    protocols: [String] = []
  ) throws -> TLSContext {
    var configuration = TLSServerConfiguration(
      credential: server.credential, clients: clients ?? ClientCertificatePolicy(request: .required, trust: trust),
      versions: versions)
    configuration.applicationProtocols = protocols
    return try TLSContext(server: configuration)
  }

  func clientContext(
    credential: Credential?? = nil, trust: Trust? = nil, versions: ClosedRange<TLSVersion> = .tls12 ... .tls13,
    protocols: [String] = []
  ) throws -> TLSContext {
    var configuration = TLSClientConfiguration(
      credential: credential ?? app.credential, trust: trust ?? self.trust, versions: versions)
    configuration.applicationProtocols = protocols
    return try TLSContext(client: configuration)
  }
}

/// Records what a link reports, and lets a test wait for it.
final class Recorder: LinkDelegate {
  enum Event: Hashable, Sendable {
    case opened
    case received([UInt8])
    case writable(Bool)
    case closed(LinkClosure)
  }

  private struct State {
    var events: [Event] = []
    var waiting: [(condition: @Sendable ([Event]) -> Bool, continuation: CheckedContinuation<[Event], Never>)] = []
  }

  private let state = Mutex(State())
  private let onEvent: @Sendable (any Link, Event) -> Void

  init(onEvent: @escaping @Sendable (any Link, Event) -> Void = { _, _ in }) {
    self.onEvent = onEvent
  }

  func linkOpened(_ link: any Link) { note(link, .opened) }
  func link(_ link: any Link, received bytes: UnsafeRawBufferPointer) { unsafe note(link, .received(Array(bytes))) }
  func link(_ link: any Link, isWritable: Bool) { note(link, .writable(isWritable)) }
  func linkClosed(_ link: any Link, reason: LinkClosure) { note(link, .closed(reason)) }

  private func note(_ link: any Link, _ event: Event) {
    let ready = state.withLock { state in
      state.events.append(event)
      let events = state.events
      let ready = state.waiting.filter { $0.condition(events) }.map(\.continuation)
      state.waiting.removeAll { $0.condition(events) }
      return (ready, events)
    }
    for continuation in ready.0 { continuation.resume(returning: ready.1) }
    onEvent(link, event)
  }

  var events: [Event] { state.withLock { $0.events } }

  func wait(until condition: @escaping @Sendable ([Event]) -> Bool) async -> [Event] {
    await withCheckedContinuation { continuation in
      let ready = state.withLock { state -> [Event]? in
        if condition(state.events) { return state.events }
        state.waiting.append((condition, continuation))
        return nil
      }
      if let ready { continuation.resume(returning: ready) }
    }
  }

  /// Returns all events of the link once it has closed.
  func waitUntilClosed() async -> [Event] {
    await wait { events in
      events.contains {
        if case .closed = $0 { true } else { false }
      }
    }
  }

  func waitUntilClosure() async -> LinkClosure? {
    if case .closed(let reason) = await waitUntilClosed().last { reason } else { nil }
  }

  func waitUntilReceived(_ count: Int) async -> [UInt8] {
    Self.bytes(await wait { Self.bytes($0).count >= count })
  }

  static func bytes(_ events: [Event]) -> [UInt8] {
    events.flatMap { event -> [UInt8] in
      if case .received(let bytes) = event { bytes } else { [] }
    }
  }
}

extension Loop {
  /// Runs `body` on the loop and waits for it.
  func run(_ body: @escaping @Sendable () -> Void) async {
    await withCheckedContinuation { continuation in
      execute {
        body()
        continuation.resume()
      }
    }
  }
}

extension Link {
  func send(_ bytes: [UInt8]) {
    unsafe bytes.withUnsafeBytes { unsafe send($0) }
  }
}

/// The last handler of a test server's connection. It passes events to a closure.
final class ServerHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  enum Event: Sendable {
    case tls(TLSEvent)
    case received([UInt8])
    case failed(any Error)
    case inactive
  }

  private let onEvent: @Sendable (any Channel, Event) -> Void

  init(_ onEvent: @escaping @Sendable (any Channel, Event) -> Void) {
    self.onEvent = onEvent
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    onEvent(context.channel, .received(Array(unwrapInboundIn(data).readableBytesView)))
  }
  func channelInactive(context: ChannelHandlerContext) { onEvent(context.channel, .inactive) }
  func errorCaught(context: ChannelHandlerContext, error: any Error) { onEvent(context.channel, .failed(error)) }
  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if let event = event as? TLSEvent { onEvent(context.channel, .tls(event)) }
  }
}

/// Runs `body` with loops that end with it.
func withLoops<R>(_ count: Int = 2, _ body: (LoopGroup) async throws -> R) async throws -> R {
  let group = LoopGroup(threads: count)
  do {
    let result = try await body(group)
    await group.shutDown()
    return result
  } catch {
    await group.shutDown()
    throw error
  }
}

/// A small random generator. A failing test can print its seed.
struct Seeded: RandomNumberGenerator {
  var state: UInt64

  init(seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 | 1 }

  mutating func next() -> UInt64 {
    state ^= state << 13
    state ^= state >> 7
    state ^= state << 17
    return state
  }
}
