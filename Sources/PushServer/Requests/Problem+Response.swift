internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import PushService

extension Problem {
  /// - Parameter instance: the path of the request.
  func response(instance: String) -> Response {
    var response = Response(
      status: status, headers: [.contentType: "application/problem+json"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: text(instance: instance))))
    if let retryAfter { response.headers[.retryAfter] = String(retryAfter) }
    if let allow { response.headers[.allow] = allow }
    if status == .unauthorized { response.headers[.wwwAuthenticate] = "Bearer" }
    return response
  }
}
