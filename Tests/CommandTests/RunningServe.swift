internal import Foundation
internal import Support
internal import Testing

@testable internal import CarillonCommand

/// A running service in front of its simulator, with a key of its API: what most tests of `carillon
/// serve` begin with.
struct RunningServe {
  let serve: ServeSite
  let upstream: HTTP2Site.Service
  let key: String
  private(set) var service: ServeSite.Service

  /// - Parameters:
  ///   - rules: of the simulator.
  ///   - scopes: of the key.
  ///   - configure: writes the configuration. Default: two apps without further settings.
  ///   - prepare: runs before the service starts, with everything else there.
  init(
    rules: String = "", scopes: [String] = ["admin"],
    configure: (ServeSite, HTTP2Site.Service) throws -> Void = { try $0.configure($1) },
    prepare: (ServeSite) async throws -> Void = { _ in }
  ) async throws {
    serve = try ServeSite()
    upstream = try await serve.site.simulate(rules: rules)
    try configure(serve, upstream)
    key = try await serve.key(scopes.flatMap { ["--scope", $0] })
    try await prepare(serve)
    service = try await serve.start()
  }

  /// One whose key may do what campaigns need.
  static func withCampaigns(
    rules: String = "", more scopes: [String] = [], prepare: (ServeSite) async throws -> Void = { _ in }
  ) async throws -> RunningServe {
    try await RunningServe(rules: rules, scopes: ["campaigns", "read"] + scopes, prepare: prepare)
  }

  /// A client of the campaigns of the app `news`.
  var campaigns: CampaignSite { CampaignSite(service, key: key) }

  /// Ends the service, as it can or at once, and starts another one.
  ///
  /// - Parameter meanwhile: runs while there is none.
  mutating func restart(
    after signal: Int32 = SIGKILL, meanwhile: () async throws -> Void = {}
  ) async throws {
    try #require(InProcess.programs == nil || signal != SIGKILL, "kill -9 needs a process")
    service.process.send(signal)
    let ending = await service.process.ending()
    if signal != SIGKILL { #expect(ending.status == 0, "\(ending)") }
    try await meanwhile()
    service = try await serve.start()
  }

  /// Sends a request of the API with the key.
  func call(
    _ path: String, body: String? = nil, method: String? = nil, headers: [String: String] = [:]
  ) async throws -> ServeSite.Reply {
    try await serve.request(service.api, path, key: key, body: body, method: method, headers: headers)
  }

  /// Gives every event of a stream to `receive`, until the stream ends.
  func events(_ path: String, _ receive: @escaping @Sendable (ServiceEvent) -> Void) async throws {
    try await service.api.events(path, key: key, receive)
  }

  /// What became of reading the configuration again.
  struct Reload: Decodable, Equatable {
    var added: [String] = []
    var removed: [String] = []
    var refreshed: [String] = []
    var waiting: [String] = []
  }

  /// Lets the service read its configuration again. The key needs the scope `admin`.
  func reload() async throws -> Reload {
    let reply = try await call("/v1/reload", body: "")
    try #require(reply.status == 200, "\(reply.text)")
    return try reply.decoded(Reload.self)
  }

  /// Ends the service in good order, and the simulator.
  ///
  /// - Returns: what the simulator accepted.
  @discardableResult
  func end() async throws -> [HTTP2Site.Taken] {
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
    return try await serve.site.taken(upstream)
  }
}
