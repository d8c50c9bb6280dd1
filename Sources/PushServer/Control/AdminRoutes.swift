internal import Carillon
internal import Hummingbird
internal import NIOCore
internal import NIOPosix
internal import PushService
internal import PushWire

/// What is asked by supervisors and monitors, on a listener of its own and a thread of its own.
/// Nothing here may take long on that thread.
struct AdminRoutes: Sendable {
  let isReady: @Sendable () -> Bool
  /// What the service waits for at present, such as `the database`; nil: nothing. Single
  /// notifications are taken in all the same.
  var obstacle: @Sendable () -> String? = { nil }
  /// Called on a thread of its own.
  let metrics: @Sendable () -> [UInt8]
  let requests: RequestMetrics
  /// Who may read the metrics; nil: every client, because only this machine reaches the listener.
  let access: ControlAccess?
  var clock: any ServiceClock = MachineClock()

  var responder: ControlResponder {
    let router = ControlResponder.router
    router.get("healthz") { _, _ in Response.json { $0.field("status", "alive") } }
    router.get("readyz") { [isReady, obstacle] _, _ in
      let isReady = isReady()
      return Response.json(isReady ? .ok : .serviceUnavailable) { json in
        json.field("status", isReady ? "ready" : "not ready")
        json.field("waitsFor", obstacle())
      }
    }
    router.get("metrics") { [metrics, access] request, context in
      try await access?.serviceGrant(request, context, .metrics, because: "The metrics have every app")
      // Not on the threads that serve requests: with a thousand apps it is a megabyte of text.
      let text = try await NIOThreadPool.singleton.runIfActive { ByteBuffer(bytes: metrics()) }
      return Response(
        status: .ok, headers: [.contentType: MetricsText.contentType], body: ResponseBody(byteBuffer: text))
    }
    return ControlResponder(router, metrics: requests, clock: clock)
  }
}

struct DescriptionRoutes: Sendable {
  let access: ControlAccess
  let program: ProgramFacts

  private static let document = ByteBuffer(bytes: PackageResources.openapi_yaml)

  private static let portion = 32 << 10

  func add(to router: Router<ControlContext>) {
    router.get("v1", use: getService)
    router.get("v1/openapi.yaml") { _, _ in
      let body = ResponseBody(contentLength: Self.document.readableBytes) { writer in
        // A client that reads nothing keeps little of it in memory.
        var rest = Self.document
        while let part = rest.readSlice(length: min(rest.readableBytes, Self.portion)), part.readableBytes > 0 {
          try await writer.write(part)
        }
        try await writer.finish(nil)
      }
      return Response(status: .ok, headers: [.contentType: "application/yaml"], body: body)
    }
  }

  private func getService(_ request: Request, _ context: ControlContext) async throws -> Response {
    _ = try await access.caller(request, context)
    return .json { json in
      json.field("name", "carillon")
      json.field("version", ProgramFacts.version)
      json.field("commit", program.commit.isEmpty ? nil : program.commitText)
      json.field("apiVersion", 1)
    }
  }
}
