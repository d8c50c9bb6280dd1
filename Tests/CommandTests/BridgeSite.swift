internal import Foundation
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// A running `carillon serve` with a bridge, in front of the simulator's HTTP/2 service.
struct BridgeSite {
  struct Service {
    let process: ChildProcess
    let api: Int
    let admin: Int
    let bridge: Int
    let feedback: Int
  }

  /// What the service says of the app's clients.
  struct Counts: Decodable {
    let clients: Int
    let frames: Int
    let forwarded: Int
    let alreadyDelivered: Int
    let silentCloses: Int
    let feedback: Int
    let responses: [String: Int]
  }

  let serve: ServeSite
  var site: HTTP2Site { serve.site }
  /// Its authority is the client-ca of the bridge.
  let clients: CertificateMaker.Files

  init() throws {
    serve = try ServeSite()
    clients = try CertificateMaker.makeAll(
      in: serve.site.place.path("clients"), topics: [HTTP2Site.topic, "com.example.other"],
      at: Int64(Date().timeIntervalSince1970))
  }

  /// A service with a journal of its own, for the clients and simulators of another one.
  init(besides other: BridgeSite) throws {
    (serve, clients) = (try ServeSite(besides: other.serve), other.clients)
  }

  /// - Parameters:
  ///   - bridge: more keys of `bridge:`.
  ///   - app: more lines of the app.
  ///   - authority: of clients.
  ///   - more: other keys of the file.
  func configure(
    _ upstream: HTTP2Site.Service, bridge: String = "", app: String = "", sync: String = "interval",
    authority: String? = nil, more: String = ""
  ) throws {
    let server = site.certificates.files.server
    try site.place.write(
      """
      journal: { directory: journal, sync: \(sync) }
      api: { listen: "127.0.0.1:0" }
      admin: { listen: "127.0.0.1:0" }
      bridge:
        listen: "127.0.0.1:0"
        feedback: "127.0.0.1:0"
        certificate: \(server.certificate)
        key: \(server.key ?? "")
        client-ca: \(authority ?? clients.authority)
        connections: { handshakes-per-second: 1000 }
      \(bridge)
      \(more)
      apps:
      \(lines("news", upstream))
      \(app)
      """, to: "carillon.yaml")
  }

  /// An app of the configuration.
  func lines(_ id: String, _ upstream: HTTP2Site.Service, topic: String = HTTP2Site.topic) -> String {
    """
      - id: \(id)
        topic: \(topic)
        transport: http2
        gateway: "localhost:\(upstream.port)"
        trust: \(site.certificates.files.authority)
        credential: { key: \(HTTP2Site.keyFile), team-id: \(HTTP2Site.team) }
    """
  }

  /// - Parameter preparation: as ``ChildProcess`` has it.
  func start(preparation: String = "exec") async throws -> Service {
    let (service, process) = try await started(preparation)
    return try #require(service, "it does not serve: \(process.errors)")
  }

  /// Starts it with a port for the bridge with which it can come back.
  func startWithOwnPort() async throws -> Service {
    let text = try site.place.read("carillon.yaml")
    for _ in 0..<20 {
      try listen(on: OwnPort.random())
      if let service = try await started().service { return service }
      try site.place.write(text, to: "carillon.yaml")
    }
    return try await start()
  }

  /// Another service may have the port until this one needs it.
  func listen(on port: Int) throws {
    let text = try site.place.read("carillon.yaml")
    let listen = "bridge:\n  listen: \"127.0.0.1:\(port)\""
    try site.place.write(text.replacing("bridge:\n  listen: \"127.0.0.1:0\"", with: listen), to: "carillon.yaml")
  }

  private func started(_ preparation: String = "exec") async throws -> (service: Service?, process: ChildProcess) {
    let process = try ChildProcess(
      ["serve", "--config", "carillon.yaml", "--json"], directory: site.place.url, preparation: preparation)
    guard let line = await process.line(0) else { return (nil, process) }
    struct Ready: Decodable {
      let api: Int
      let admin: Int
      let bridge: Int
      let bridgeFeedback: Int
    }
    let ready = try JSONDecoder().decode(Ready.self, from: Data(line.utf8))
    let service = Service(
      process: process, api: ready.api, admin: ready.admin, bridge: ready.bridge, feedback: ready.bridgeFeedback)
    return (service, process)
  }

  func counts(_ service: Service, key: String, app: String = "news") async throws -> Counts {
    try await serve.request(service.api, "/v1/apps/\(app)/bridge", key: key).decoded(Counts.self)
  }

  func client(
    _ port: Int, count: Int, badEvery: Int, first: Int = 0, topic: String = HTTP2Site.topic, version: String? = nil,
    other: Int? = nil
  ) throws -> ChildProcess {
    let files = try #require(clients.apps[topic])
    return try BridgeClient.start(
      in: site.place, port: port, authority: site.certificates.files.authority, certificate: files.certificate,
      key: try #require(files.key), count: count, badEvery: badEvery, first: first, version: version, other: other)
  }

  func feedback(_ port: Int, limit: Int = 0) async throws -> BridgeClient.Feedback {
    let files = try #require(clients.apps[HTTP2Site.topic])
    return try await BridgeClient.feedback(
      in: site.place, port: port, authority: site.certificates.files.authority, certificate: files.certificate,
      key: try #require(files.key), limit: limit)
  }
}
