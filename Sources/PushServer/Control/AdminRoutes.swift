internal import Carillon
internal import Hummingbird
internal import NIOCore

/// What is asked by supervisors and monitors, on a listener of its own.
struct AdminRoutes: Sendable {
  let isReady: @Sendable () -> Bool
  let metrics: @Sendable () -> String

  var responder: ControlResponder<RouterResponder<ControlContext>> {
    let router = Router(context: ControlContext.self)
    router.get("healthz") { _, _ in Response.json { $0.field("status", "alive") } }
    router.get("readyz") { [isReady] _, _ in
      let isReady = isReady()
      return Response.json(isReady ? .ok : .serviceUnavailable) { $0.field("status", isReady ? "ready" : "not ready") }
    }
    router.get("metrics") { [metrics] _, _ in
      Response(
        status: .ok, headers: [.contentType: "text/plain; version=0.0.4; charset=utf-8"],
        body: ResponseBody(byteBuffer: ByteBuffer(string: metrics())))
    }
    return ControlResponder(router: router.buildResponder())
  }
}
