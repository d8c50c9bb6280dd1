internal import Carillon
internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import NIOCore
internal import PushService
internal import PushWire

struct ControlContext: RequestContext {
  var coreContext: CoreRequestContextStorage
  let channel: any Channel
  var caller: Caller?
  /// Of an action that the log gets.
  var trail: TrailNote?
  let memory = RequestMemory()

  init(source: ApplicationRequestContextSource) {
    channel = source.channel
    coreContext = CoreRequestContextStorage(source: source)
  }

  /// What the request's address names is not there.
  ///
  /// - Parameters:
  ///   - kind: such as `campaign`.
  ///   - parameter: of the address, which names it.
  func missing(_ kind: String, of app: PushApp, parameter: String = "id") -> Problem {
    Problem.missing("\(kind) \((parameters.get(parameter) ?? "").cited) of the app \(app.id.cited)")
  }

  /// The address as it was registered; nil if there is none.
  var route: String? { endpointPath.flatMap { $0 == "NotFound" ? nil : $0 } }
}

/// Serves what the router finds, and says in one form what went wrong.
struct ControlResponder: HTTPResponder {
  private let router: RouterResponder<ControlContext>
  private let allowed: AllowedMethods
  private let metrics: RequestMetrics
  private let clock: any ServiceClock

  init(_ router: Router<ControlContext>, metrics: RequestMetrics, clock: any ServiceClock) {
    (self.metrics, self.clock) = (metrics, clock)
    allowed = AllowedMethods(router)
    self.router = router.buildResponder()
  }

  static var router: Router<ControlContext> {
    Router(context: ControlContext.self, options: .autoGenerateHeadEndpoints)
  }

  func respond(to request: Request, context: ControlContext) async throws -> Response {
    let start = clock.uptime
    var response = await answer(to: request, context)
    response.headers[.requestID] = context.id
    let duration = clock.uptime.since(start)
    // The address without what stands for its parameters: a token may be among them.
    let route = context.route
    metrics.record(duration, route: route, method: request.method, status: response.status)
    context.logger.debug(
      "request",
      metadata: [
        "method": "\(request.method)", "route": "\(route ?? "none")", "status": "\(response.status.code)",
        "seconds": "\(duration / .seconds(1))",
      ])
    return response
  }

  private func answer(to request: Request, _ context: ControlContext) async -> Response {
    var request = request
    if request.headers[.expect] != nil {
      request.body = RequestBody(asyncSequence: ContinuedBody(body: request.body, channel: context.channel))
    }
    do {
      let response = try await router.respond(to: request, context: context)
      // What the router says of an address, or a method of it, that it does not know.
      guard response.status == .notFound, response.body.contentLength == 0 else { return response }
      return try unknown(request)
    } catch {
      let problem = Problem(describing: error)
      if problem.status.kind == .serverError {
        context.logger.warning(
          "request failed",
          metadata: [
            "method": "\(request.method)", "route": "\(context.route ?? "none")", "why": "\(problem.detail)",
          ])
      }
      return problem.response(instance: request.uri.path)
    }
  }

  /// What only the listener for supervisors and monitors has.
  private static let supervision: Set<String> = ["/metrics", "/healthz", "/readyz"]

  private func unknown(_ request: Request) throws -> Response {
    let path = request.uri.path
    guard let methods = allowed.methods(for: path) else {
      throw Self.supervision.contains(path) ? Problem.elsewhere(path) : Problem.notFound
    }
    let list = methods.joined(separator: ", ")
    if request.method == .options { return Response(status: .noContent, headers: [.allow: list]) }
    var problem = Problem(
      .methodNotAllowed, "Method not allowed", "There is no \(request.method) of this address.", action: "Use \(list).")
    problem.allow = list
    throw problem
  }
}

extension HTTPField.Name {
  /// Of a request in the log: `X-Request-Id`.
  static var requestID: HTTPField.Name { HTTPField.Name(parsed: "x-request-id") ?? .init("x-request-id") ?? .date }
}
