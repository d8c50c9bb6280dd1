internal import Foundation
internal import FoundationNetworking
internal import Testing

/// A browser without JavaScript: keeps cookies, sends forms, follows no redirect.
final class Browser {
  struct Page {
    let status: Int
    let headers: [String: String]
    let text: String

    /// The value of the hidden field that proves where a form comes from.
    var formToken: String? { text.firstMatch(of: /name="form-token" value="([0-9a-f]+)"/).map { String($0.1) } }
  }

  private final class NoRedirects: NSObject, URLSessionTaskDelegate {
    func urlSession(
      _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
      newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
      completionHandler(nil)
    }
  }

  private let api: Endpoint
  var cookies: [String: String] = [:]
  private let session: URLSession

  convenience init(port: Int) { self.init(.port(port)) }

  init(_ api: Endpoint) {
    self.api = api
    let configuration = URLSessionConfiguration.ephemeral
    configuration.httpShouldSetCookies = false
    configuration.httpCookieAcceptPolicy = .never
    session = URLSession(configuration: configuration, delegate: NoRedirects(), delegateQueue: nil)
  }

  func get(_ path: String, host: String? = nil) async throws -> Page { try await load(path, nil, ["Host": host]) }

  /// - Parameter origin: nil: the service's own.
  func post(
    _ path: String, _ fields: [(String, String)], origin: String? = nil, host: String? = nil
  ) async throws -> Page {
    let body = fields.map { "\($0.0)=\(Self.encoded($0.1))" }.joined(separator: "&")
    return try await load(path, body, ["Origin": origin ?? "http://\(api.authority)", "Host": host])
  }

  /// The page with the key's own login.
  func logIn(_ key: String) async throws -> Page {
    let token = try #require(try await get("/login").formToken)
    return try await post("/login", [("form-token", token), ("key", key)])
  }

  private static func encoded(_ text: String) -> String {
    text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
  }

  private func load(_ path: String, _ body: String?, _ headers: [String: String?]) async throws -> Page {
    var sent = headers.compactMapValues { $0 }
    if body != nil { sent["Content-Type"] = "application/x-www-form-urlencoded" }
    if !cookies.isEmpty {
      sent["Cookie"] = cookies.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: "; ")
    }
    let reply = try await api.request(path, body: body.map { Data($0.utf8) }, headers: sent, over: session)
    note(reply.headers["set-cookie"] ?? "")
    return Page(status: reply.status, headers: reply.headers, text: reply.text)
  }

  /// Several cookies come in one header, separated by commas.
  private func note(_ text: String) {
    for match in text.matches(of: /(carillon_\w+)=([0-9a-f]*); Path=\/; Max-Age=(\d+)/) {
      cookies[String(match.1)] = match.3 == "0" ? nil : String(match.2)
    }
  }
}
