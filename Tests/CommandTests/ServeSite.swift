internal import Foundation
internal import FoundationNetworking
internal import PushTransport
internal import Support
internal import Testing

/// A running `carillon serve` in front of the simulator's HTTP/2 service, and a client of its API.
struct ServeSite {
  struct Service {
    let process: ChildProcess
    let api: Int
    let admin: Int
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

  init() throws { site = try HTTP2Site() }

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
      \(more)
      apps:
      \(apps.joined())
      """, to: "carillon.yaml")
  }

  /// - Parameter preparation: as ``ChildProcess`` has it.
  func start(preparation: String = "exec") async throws -> Service {
    let process = try ChildProcess(
      ["serve", "--config", "carillon.yaml", "--json"], directory: site.place.url, preparation: preparation)
    let line = try #require(await process.line(0), "it does not serve: \(process.errors)")
    struct Ready: Decodable {
      let api: Int
      let admin: Int
    }
    let ready = try JSONDecoder().decode(Ready.self, from: Data(line.utf8))
    return Service(process: process, api: ready.api, admin: ready.admin)
  }

  /// - Returns: the key's text.
  func key(_ flags: [String] = []) async throws -> String {
    let reach = flags.contains("--app") ? [] : ["--all-apps"]
    let ending = try await site.run(["key", "create", "--config", "carillon.yaml", "--name", "test"] + reach + flags)
    #expect(ending.status == 0, "\(ending)")
    return ending.output.trimmingCharacters(in: .whitespacesAndNewlines)
  }

  func request(
    _ port: Int, _ path: String, key: String? = nil, body: String? = nil, method: String? = nil,
    headers: [String: String] = [:]
  ) async throws -> Reply {
    var request = URLRequest(url: try #require(URL(string: "http://127.0.0.1:\(port)\(path)")), timeoutInterval: 600)
    if let body {
      request.httpMethod = "POST"
      request.httpBody = Data(body.utf8)
    }
    if let method { request.httpMethod = method }
    for (name, value) in headers { request.setValue(value, forHTTPHeaderField: name) }
    if let key { request.setValue("Bearer \(key)", forHTTPHeaderField: "Authorization") }
    let (data, response) = try await session.reply(to: request)
    let answer = response as? HTTPURLResponse
    var fields: [String: String] = [:]
    for (name, value) in answer?.allHeaderFields ?? [:] { fields["\(name)".lowercased()] = "\(value)" }
    return Reply(status: answer?.statusCode ?? 0, body: data, headers: fields)
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
