internal import Hummingbird
internal import NIOCore

/// The description of the interface.
struct DescriptionRoutes: Sendable {
  private static let document = ByteBuffer(bytes: PackageResources.openapi_yaml)

  private static let portion = 32 << 10

  func add(to router: Router<ControlContext>) {
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
}
