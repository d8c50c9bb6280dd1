internal import Hummingbird

/// Serves the addresses that are added after it away from the event loops, because they may read
/// files, or make long answers.
struct CommonPool: RouterMiddleware {
  typealias Context = ControlContext

  func handle(
    _ request: Request, context: ControlContext, next: (Request, ControlContext) async throws -> Response
  ) async throws -> Response {
    try await withCommonPool { try await next(request, context) }
  }
}
