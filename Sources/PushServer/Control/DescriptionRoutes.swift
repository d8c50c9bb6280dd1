internal import Hummingbird
internal import NIOCore

/// The description of the interface.
struct DescriptionRoutes: Sendable {
  private static let document = ByteBuffer(bytes: PackageResources.openapi_yaml)

  func add(to router: Router<ControlContext>) {
    router.get("v1/openapi.yaml") { _, _ in
      Response(
        status: .ok, headers: [.contentType: "application/yaml"], body: ResponseBody(byteBuffer: Self.document))
    }
  }
}
