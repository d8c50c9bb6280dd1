internal import Hummingbird
internal import Logging
internal import NIOCore

/// What a request brings along.
struct ControlContext: RequestContext {
  var coreContext: CoreRequestContextStorage
  /// Of the request's connection.
  let channel: any Channel

  init(source: ApplicationRequestContextSource) {
    channel = source.channel
    coreContext = CoreRequestContextStorage(source: source)
  }
}

/// Serves what the router finds, and says in one form what went wrong.
struct ControlResponder<Router: HTTPResponder>: HTTPResponder where Router.Context == ControlContext {
  let router: Router
  let metrics: RequestMetrics

  func respond(to request: Request, context: ControlContext) async throws -> Response {
    let start = ContinuousClock.now
    let response = await response(to: request, context: context)
    metrics.record(
      ContinuousClock.now - start, route: context.endpointPath.flatMap { $0 == "NotFound" ? nil : $0 },
      method: request.method, status: response.status)
    return response
  }

  private func response(to request: Request, context: ControlContext) async -> Response {
    do {
      let response = try await router.respond(to: request, context: context)
      // What the router says of an address that it does not know.
      if response.status == .notFound, response.body.contentLength == 0 { throw Problem.notFound }
      return response
    } catch {
      let problem = Problem(describing: error)
      if problem.status.kind == .serverError {
        context.logger.warning("request failed", metadata: ["path": "\(request.uri.path)", "why": "\(problem.detail)"])
      }
      return problem.response(instance: request.uri.path)
    }
  }
}
