internal import Foundation
internal import FoundationNetworking
internal import PushServer
internal import PushStore
internal import PushTransport
internal import Support
internal import Testing

/// A running `carillon serve` in front of the simulator's HTTP/2 service, and a client of its API.
/// Both run in the test's own process if it has the trait ``InProcess``.
struct ServeSite {
  struct Service {
    let process: any TestProgram
    let api: Endpoint
    let admin: Endpoint
  }

  struct Reply {
    let status: Int
    let body: Data
    var headers: [String: String] = [:]
    /// Seconds.
    var retryAfter: Int? { headers["retry-after"].flatMap { Int($0) } }

    func decoded<Value: Decodable>(_ type: Value.Type) throws -> Value { try JSONDecoder().decode(type, from: body) }
    var text: String { String(decoding: body, as: UTF8.self) }
  }

  struct Queued: Decodable {
    let id: String
    let state: String
  }

  struct Notification: Decodable {
    let id: String
    let state: String
    let outcome: String?
    let reason: String?
  }

  struct Problem: Decodable {
    struct Detail: Decodable {
      let pointer: String?
      let detail: String
    }
    let title: String
    let status: Int
    let detail: String
    let instance: String
    let errors: [Detail]?
    let action: String?
  }

  let site: HTTP2Site
  private let session = URLSession(configuration: .ephemeral)

  /// Of the configuration; empty: the default.
  private let store: String

  init() throws { (site, store) = (try HTTP2Site(), try Self.makeStore()) }

  /// A service with a journal of its own, for the simulators of another one.
  init(besides other: ServeSite) throws {
    (site, store) = (try HTTP2Site(sameCredentialAs: other.site), try Self.makeStore())
  }

  /// - Parameters:
  ///   - settings: further settings of each app, such as `queue: { bytes: 64KiB }`.
  ///   - topic: of each app.
  func configure(
    _ upstream: HTTP2Site.Service, sync: String = "interval", apps: [String] = ["news", "chat"],
    keyFile: String = HTTP2Site.keyFile, settings: String = "", api: String = "", more: String = "",
    topic: (String) -> String = { _ in HTTP2Site.topic }
  ) throws {
    let apps = apps.map { id in
      """
        - id: \(id)
          topic: \(topic(id))
          transport: http2
          gateway: "localhost:\(upstream.port)"
          trust: \(site.certificates.files.authority)
          credential: { key: \(keyFile), team-id: \(HTTP2Site.team) }
          \(settings)

      """
    }
    try site.place.write(
      """
      journal: { directory: journal, sync: \(sync) }
      api: { listen: "127.0.0.1:0"\(api) }
      admin: { listen: "127.0.0.1:0" }
      \(more.contains("store:") ? "" : store)
      \(more)
      apps:
      \(apps.joined())
      """, to: "carillon.yaml")
  }

  /// All of these tests run on PostgreSQL if the environment says so.
  static var isOnDatabase: Bool { ProcessInfo.processInfo.environment["CARILLON_STORE"] == "postgresql" }

  private static func makeStore() throws -> String {
    guard isOnDatabase else { return "" }
    let server = try PostgreSQLServer.shared.get()
    return try store(in: server)
  }

  /// The configuration of a store in a new database.
  static func store(in server: PostgreSQLServer) throws -> String {
    store(in: server, database: try server.makeDatabase())
  }

  static func store(in server: PostgreSQLServer, database: String) -> String {
    "store: { postgres: { hosts: [\(server.folder)], database: \(database), user: \(PostgreSQLServer.user) } }"
  }

  /// - Parameter preparation: as ``ChildProcess`` has it.
  func start(preparation: String = "exec") async throws -> Service {
    if let programs = InProcess.programs {
      try #require(preparation == "exec", "a preparation needs a process")
      let local = try await LocalService.start(site.place.path("carillon.yaml"), in: programs)
      return Service(process: local.program, api: .calls(local.api), admin: .calls(local.admin))
    }
    let process = try ChildProcess(
      ["serve", "--config", "carillon.yaml", "--json"], directory: site.place.url, preparation: preparation)
    let line = try #require(await process.line(0), "it does not serve: \(process.errors)")
    struct Ready: Decodable {
      let api: Int
      let admin: Int
    }
    let ready = try JSONDecoder().decode(Ready.self, from: Data(line.utf8))
    return Service(process: process, api: .port(ready.api), admin: .port(ready.admin))
  }

  /// Makes a key as `carillon key create` does.
  ///
  /// - Parameter flags: `--scope` and `--app` as the command has them. Without an app: for all.
  /// - Returns: the key's text.
  func key(_ flags: [String] = [], name: String = "test") async throws -> String {
    var scopes: [Scope] = []
    var apps: Set<String> = []
    for (flag, value) in zip(flags, flags.dropFirst()) {
      if flag == "--scope" { scopes.append(try #require(Scope(rawValue: value))) }
      if flag == "--app" { apps.insert(value) }
    }
    return try await withKeys { keys in
      try await keys.create(
        name: name, scopes: scopes.isEmpty ? [.send, .read] : scopes, reach: apps.isEmpty ? .all : .only(apps)
      ).text
    }
  }

  /// Revokes a key as `carillon key revoke` does.
  func revoke(_ key: String) async throws {
    let id = String(try #require(key.split(separator: "_").dropFirst().first))
    let isRevoked = try await withKeys { try await $0.revoke(id) }
    try #require(isRevoked, "\(id)")
  }

  /// Names of all keys.
  func keyNames() async throws -> [String] { try await withKeys { try await $0.keys().map(\.name) } }

  /// The service's own, beside it.
  func openStore() throws -> any Store {
    let file = site.place.path("carillon.yaml")
    return try ServerConfiguration.read(file: file).store.open(besides: file, isVisitor: true)
  }

  private func withKeys<Result>(_ body: (KeyStore) async throws -> Result) async throws -> Result {
    let configuration = try ServerConfiguration.read(file: site.place.path("carillon.yaml"))
    let keys = try KeyStore(configuration.store, besides: site.place.path("carillon.yaml"))
    let result = try await body(keys)
    try keys.close()
    return result
  }

  func request(
    _ port: Int, _ path: String, key: String? = nil, body: String? = nil, method: String? = nil,
    headers: [String: String] = [:]
  ) async throws -> Reply {
    try await request(.port(port), path, key: key, body: body, method: method, headers: headers)
  }

  func request(
    _ endpoint: Endpoint, _ path: String, key: String? = nil, body: String? = nil, method: String? = nil,
    headers: [String: String] = [:]
  ) async throws -> Reply {
    try await endpoint.request(
      path, key: key, body: body.map { Data($0.utf8) }, method: method, headers: headers, over: session)
  }

  static func body(_ token: String) -> String { #"{"token":"\#(token)","payload":{"aps":{"alert":"Hello"}}}"# }

  /// The notification once it has its outcome.
  func finished(_ id: String, _ service: Service, key: String) async throws -> Notification {
    var last: Notification?
    try await waitUntil("the notification \(id) has its outcome") {
      let reply = try await request(service.api, "/v1/apps/news/notifications/\(id)", key: key)
      try #require(reply.status == 200, "\(id): \(reply.text)")
      last = try reply.decoded(Notification.self)
      return last?.state == "finished"
    }
    return try #require(last)
  }
}

extension Trait where Self == ConditionTrait {
  /// The test looks at `store.db` itself.
  static var ofStoreFile: Self { .disabled(if: ServeSite.isOnDatabase, "it looks at store.db itself") }
}
