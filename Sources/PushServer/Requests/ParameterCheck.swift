internal import HTTPTypes
internal import Hummingbird
internal import PushService
internal import PushStore

/// Refuses query parameters that an address does not have, and those that stand twice, as unknown
/// fields of a body are refused: a misspelt one would otherwise be ignored.
struct ParameterCheck: RouterMiddleware {
  /// By the address as it is registered. Every other address has none.
  private static let names: [String: [Substring]] = [
    "/v1/apps": ["limit", "cursor"],
    "/v1/apps/{app}/devices": ["limit", "cursor", "tag"],
    "/v1/apps/{app}/campaigns": ["limit", "cursor"],
    "/v1/apps/{app}/feedback": ["limit", "cursor"],
    "/v1/audit": ["limit", "cursor", "app"],
    "/v1/apps/{app}/outcomes": ["limit", "cursor", "wait"],
  ]

  func handle(
    _ request: Request, context: ControlContext, next: (Request, ControlContext) async throws -> Response
  ) async throws -> Response {
    // The pages have addresses of their own.
    if request.uri.query != nil, let route = context.route, route.hasPrefix("/v1/") {
      try Self.check(request.uri.queryParameters.map(\.key), of: route)
    }
    return try await next(request, context)
  }

  /// - Throws: ``Problem`` with 400.
  static func check(_ found: [Substring], of route: String) throws {
    let known = names[route] ?? []
    if let unknown = found.first(where: { !known.contains($0) }) {
      throw Problem.malformed(
        "There is no parameter \"\(unknown.prefix(64))\" here"
          + (known.isEmpty ? "." : "; there are \(known.joined(separator: ", "))."))
    }
    if let twice = known.first(where: { name in found.count { $0 == name } > 1 }) {
      throw Problem.malformed("The parameter \"\(twice)\" stands twice.")
    }
  }
}

extension Parameters {
  /// - Throws: ``Problem`` with 400 if it is no whole number in the range.
  func integer(_ name: String, in range: ClosedRange<Int>) throws -> Int? {
    guard let text = self[name[...]] else { return nil }
    guard let number = Int(text), range.contains(number) else {
      throw Problem.malformed("The parameter \(name) must be from \(range.lowerBound) to \(range.upperBound).")
    }
    return number
  }
}

extension Parameters {
  /// Where a page of a list in the order of identifiers begins; nil: it is the first.
  ///
  /// - Throws: ``Problem`` with 400.
  func identifierCursor() throws -> StoredUUID? {
    guard let text = self["cursor"] else { return nil }
    guard let id = StoredUUID(text) else {
      throw Problem.malformed("The parameter cursor must be the nextCursor of the page before.")
    }
    return id
  }
}

/// A page of a list. One more than fits is read, so that the last page is known to be the last.
struct ListPage<Item: Sendable>: Sendable {
  let items: [Item]
  /// Nil: nothing follows. Otherwise the next page begins behind it.
  let last: Item?

  static func readLimit(_ limit: Int) -> Int { limit + 1 }

  /// - Parameters:
  ///   - found: from the beginning of the page on.
  ///   - limit: how many fit, from 1.
  init(_ found: [Item], limit: Int) {
    items = Array(found.prefix(limit))
    last = found.count > limit ? items.last : nil
  }

  /// - Parameters:
  ///   - byteLimit: of all items together. A larger one is a page of its own.
  ///   - byteCount: the size of an item.
  init(_ found: [Item], limit: Int, byteLimit: Int, byteCount: (Item) -> Int) {
    var (total, count) = (0, 0)
    for item in found.prefix(limit) {
      total += byteCount(item)
      guard count == 0 || total <= byteLimit else { break }
      count += 1
    }
    self.init(found, limit: max(1, count))
  }
}
