internal import Carillon
internal import Hummingbird
internal import NIOCore
internal import PushService
internal import PushStore
internal import PushWire

/// All outcomes of an app, one after the other.
struct OutcomeRoutes: Sendable {
  let access: ControlAccess
  let feed: OutcomeFeed
  let isOpen: @Sendable () -> Bool

  private static let (pageLimit, usualPage) = (10_000, 1_000)
  /// Outcomes of a stream that are read together: some milliseconds.
  private static let portion = 1_000
  private static let waitLimit = 60

  func add(to router: Router<ControlContext>) { router.get("v1/apps/{app}/outcomes", use: getOutcomes) }

  private func getOutcomes(_ request: Request, _ context: ControlContext) async throws -> Response {
    let (app, grant) = try await access.grant(request, context, .read)
    let parameters = request.uri.queryParameters
    let cursor = Int64(try parameters.integer("cursor", in: 0...Int.max) ?? 0)
    let wait = Duration.seconds(try parameters.integer("wait", in: 0...Self.waitLimit) ?? 0)
    if request.headers[.accept].flatMap(MediaType.init(header:)) == .lines {
      let limit = try parameters.integer("limit", in: 1...Int.max) ?? .max
      return stream(app.id, grant, after: cursor, limit: limit, wait: wait)
    }
    let limit = try parameters.integer("limit", in: 1...Self.pageLimit) ?? Self.usualPage
    let page = try await feed.page(
      app.id, after: cursor, limit: limit, separator: UInt8(ascii: ","), wait: wait, clock: access.clock,
      while: isOpen)
    if wait > .zero { try await grant.demand() }
    return Response(
      status: .ok, headers: [.contentType: MediaType.json.rawValue],
      body: ResponseBody(byteBuffer: ByteBuffer(bytes: page.object())))
  }

  /// Everything that is there, and what comes, until nothing has come for a while.
  private func stream(_ app: String, _ grant: Grant, after cursor: Int64, limit: Int, wait: Duration) -> Response {
    Response(
      status: .ok, headers: [.contentType: MediaType.lines.rawValue],
      body: ResponseBody { [feed, isOpen, clock = access.clock] writer in
        var (last, left) = (cursor, limit)
        while left > 0, isOpen() {
          let page = try await feed.page(
            app, after: last, limit: min(left, Self.portion), separator: UInt8(ascii: "\n"), wait: wait, clock: clock,
            while: isOpen)
          guard page.count > 0, try await grant.isValid() else { break }
          try await writer.write(ByteBuffer(bytes: page.bytes))
          (last, left) = (page.last, left - page.count)
        }
        try await writer.finish(nil)
      })
  }
}
