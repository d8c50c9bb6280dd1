internal import Carillon
internal import Hummingbird
internal import NIOCore
internal import NIOPosix
internal import PushWire

/// What is asked by supervisors and monitors, on a listener of its own and a thread of its own.
/// Nothing here may take long on that thread.
struct AdminRoutes: Sendable {
  let isReady: @Sendable () -> Bool
  /// Called on a thread of its own.
  let metrics: @Sendable () -> [UInt8]
  let requests: RequestMetrics
  /// Who may read the metrics; nil: every client, because only this machine reaches the listener.
  let access: ControlAccess?

  var responder: ControlResponder {
    let router = ControlResponder.router
    router.get("healthz") { _, _ in Response.json { $0.field("status", "alive") } }
    router.get("readyz") { [isReady] _, _ in
      let isReady = isReady()
      return Response.json(isReady ? .ok : .serviceUnavailable) { $0.field("status", isReady ? "ready" : "not ready") }
    }
    router.get("metrics") { [metrics, access] request, context in
      try await access?.serviceGrant(request, context, .metrics, because: "The metrics have every app")
      // Not on the threads that serve requests: with a thousand apps it is a megabyte of text.
      let text = try await NIOThreadPool.singleton.runIfActive { ByteBuffer(bytes: metrics()) }
      return Response(
        status: .ok, headers: [.contentType: MetricsText.contentType], body: ResponseBody(byteBuffer: text))
    }
    return ControlResponder(router, metrics: requests)
  }
}
