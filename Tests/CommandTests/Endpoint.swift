internal import Foundation
internal import FoundationNetworking
internal import HTTPTypes
internal import NIOCore
internal import Support
internal import Synchronization
internal import Testing

@testable internal import CarillonCommand

/// An interface of a running service: at a port, or in the test's own process.
enum Endpoint {
  case port(Int)
  case calls(APICalls)

  /// For clients that need a connection. 0: nothing listens.
  var port: Int { if case .port(let port) = self { port } else { 0 } }
  /// Host and port, as its clients know them.
  var authority: String { if case .port(let port) = self { "127.0.0.1:\(port)" } else { APICalls.authority } }

  /// - Parameters:
  ///   - method: nil: POST if there is a body, otherwise GET.
  ///   - session: of a client that needs one.
  func request(
    _ path: String, key: String? = nil, body: Data? = nil, method: String? = nil, headers: [String: String] = [:],
    over session: URLSession
  ) async throws -> ServeSite.Reply {
    var headers = headers
    if let key { headers["Authorization"] = "Bearer \(key)" }
    let method = method ?? (body == nil ? "GET" : "POST")
    switch self {
    case .calls(let calls): return try await calls.reply(path, method: method, headers: headers, body: body)
    case .port(let port):
      let url = try #require(URL(string: "http://127.0.0.1:\(port)\(path)"))
      var request = URLRequest(url: url, timeoutInterval: 600)
      request.httpMethod = method
      request.httpBody = body
      for (name, value) in headers { request.setValue(value, forHTTPHeaderField: name) }
      let (data, response) = try await session.reply(to: request)
      let answer = try #require(response as? HTTPURLResponse)
      var fields: [String: String] = [:]
      for (name, value) in answer.allHeaderFields { fields["\(name)".lowercased()] = "\(value)" }
      return ServeSite.Reply(status: answer.statusCode, body: data, headers: fields)
    }
  }

  /// Gives every event of a stream to `receive`, until the stream ends.
  func events(_ path: String, key: String, _ receive: @escaping @Sendable (ServiceEvent) -> Void) async throws {
    switch self {
    case .port(let port):
      let client = try APIClient(ServiceAddress(host: "127.0.0.1", port: port), key: key)
      _ = try await client.events(.get(path)) { event in
        receive(event)
        return true
      }
    case .calls(let calls):
      let parser = Mutex(ServiceEventParser())
      let head = try await calls.call(
        path, method: "GET", headers: ["Authorization": "Bearer \(key)"], body: nil
      ) { part in
        let events = parser.withLock { $0.events(in: Array(part.readableBytesView)) }
        for event in try #require(events) { receive(event) }
      }
      try #require(head.status == .ok)
    }
  }
}
