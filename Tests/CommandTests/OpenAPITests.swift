internal import Foundation
internal import Support
internal import Testing

@testable internal import PushServer

@Suite("openapi.yaml", .timeLimit(.minutes(10)))
struct OpenAPITests {
  private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()
  private static let methods: Set<String> = ["get", "post", "put", "patch", "delete"]

  /// The addresses and methods of a document.
  private static func described(_ text: String) throws -> [String: Set<String>] {
    guard case .map(let entries) = try YAMLNode.parse(text, file: "openapi.yaml").content,
      case .map(let paths)? = entries.first(where: { $0.key == "paths" })?.value.content
    else { return [:] }
    var described: [String: Set<String>] = [:]
    for path in paths {
      guard case .map(let operations) = path.value.content else { continue }
      described[path.key] = Set(operations.map(\.key)).intersection(methods)
    }
    return described
  }

  /// POSTs that are work, not decisions: the log has no line for each of them.
  private static let unlogged: Set<String> = [
    "/v1/apps/{app}/notifications", "/v1/apps/{app}/notifications:batch", "/v1/apps/{app}/devices:import",
    "/v1/apps/{app}/campaigns", "/v1/apps/{app}/campaigns/{id}/audience",
    "/v1/apps/{app}/activities/{activity}:update", "/v1/apps/{app}/activities/{activity}:end",
    "/v1/apps/{app}/activity-types/{type}:start",
  ]

  @Test("every POST that decides something is logged with who did it")
  func logged() throws {
    let text = try String(
      contentsOf: Self.root.appending(path: "Sources/PushServer/OpenAPI/openapi.yaml"), encoding: .utf8)
    let posts = Set(try Self.described(text).filter { $0.value.contains("post") }.keys)
    #expect(posts.count > 10)
    let logged = Set(Trail.actions.keys.filter { $0.hasPrefix("/v1/") })
    #expect(logged.isSubset(of: posts))
    #expect(posts.subtracting(logged) == Self.unlogged)
  }

  @Test("the document is served, and the service has every address and method in it", .inProcess, .ofStoreFile)
  func served() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream)
    let service = try await serve.start()
    let document = try await serve.request(service.api, "/v1/openapi.yaml")
    #expect(document.status == 200)
    let described = try Self.described(document.text)
    #expect(described.count > 8)
    for (path, methods) in described {
      // The id of a notification or a campaign, and a token.
      let address = path.replacing("{app}", with: "news").replacing("{token}", with: HTTP2Site.token(1))
        .replacing("{node}", with: "n1")
        .replacing("{id}", with: "01a2028a-f598-798e-94da-407300000001")
      let answer = try await serve.request(service.api, address, method: "OPTIONS")
      let allowed = answer.headers["allow"]?.lowercased() ?? ""
      #expect(methods.isSubset(of: allowed.split(separator: ", ").map { String($0) }), "\(path): \(answer)")
    }
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    upstream.simulator.send(SIGTERM)
    _ = await upstream.simulator.ending()
  }

  @Test("every address that a route of the interface has is in the document")
  func complete() throws {
    let sources = Self.root.appending(path: "Sources/PushServer")
    let described = try Self.described(
      String(contentsOf: sources.appending(path: "OpenAPI/openapi.yaml"), encoding: .utf8))
    var count = 0
    let files = FileManager.default.enumerator(atPath: sources.path(percentEncoded: false))
    while let name = files?.nextObject() as? String {
      guard name.contains("Routes"), name.hasSuffix(".swift") else { continue }
      let text = try String(contentsOf: sources.appending(path: name), encoding: .utf8)
      for match in text.matches(of: #/\b(?:app|router)\.(get|post|put|patch|delete)\("([^"]+)"/#) {
        let (method, path) = (String(match.1), String(match.2))
        let address = path.hasPrefix("v1/") ? "/\(path)" : "/v1/apps/{app}/\(path)"
        // The admin listener, and what people look at.
        guard path.hasPrefix("v1/") || text.contains("router.group(\"v1/apps/{app}\")") else { continue }
        count += 1
        let isDescribed =
          described[address]?.contains(method) == true
          || described.contains { $0.key.hasPrefix(address + ":") && $0.value.contains(method) }
        #expect(isDescribed, "\(method) \(address) of \(name) is not in openapi.yaml")
      }
    }
    #expect(count > 8)
  }
}
