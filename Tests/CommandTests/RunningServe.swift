internal import Foundation
internal import Support
internal import Testing

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

  /// Lets the service read its configuration again. The key needs the scope `admin`.
  func reload() async throws -> Ending {
    try serve.site.place.writeSecret(key, to: "reload.key")
    return try await serve.site.run([
      "reload", "--url", "http://127.0.0.1:\(service.api)", "--key-file", "reload.key",
    ])
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
