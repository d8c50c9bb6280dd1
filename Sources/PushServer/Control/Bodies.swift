internal import Carillon
internal import Hummingbird
internal import NIOCore
internal import NIOHTTP1
internal import PushStore
internal import PushWire

extension Problem {
  init(describing error: any Error) {
    switch error {
    case let problem as Problem: self = problem
    case let error as CarillonError: self.init(error)
    case let error as StoreError: self.init(error)
    case is HTTPParserError: self = .malformed("The body was cut off, or is not HTTP/1.1.")
    case let error as any HTTPResponseError where error.status == .notFound: self = .notFound
    case let error as any HTTPResponseError: self.init(error.status, "\(error.status.reasonPhrase)", "\(error)")
    default: self.init(.internalServerError, "Internal error", "The request could not be served: \(error).")
    }
  }
}

extension Request {
  /// The whole body.
  ///
  /// - Throws: ``Problem`` with 413 when there is more of it than the limit, and with 400 when it is cut off.
  func wholeBody(limit: Int) async throws -> [UInt8] {
    if let length = headers[.contentLength].flatMap({ Int($0) }), length > limit { throw Self.tooLarge(limit) }
    var bytes: [UInt8] = []
    for try await part in body {
      guard bytes.count + part.readableBytes <= limit else { throw Self.tooLarge(limit) }
      bytes.append(contentsOf: part.readableBytesView)
    }
    return bytes
  }

  private static func tooLarge(_ limit: Int) -> Problem {
    Problem(
      .contentTooLarge, "Too large", "The body has more than \(limit) bytes.",
      action: "Send it in parts, or raise max-body of the service.")
  }
}

extension Response {
  static func json(_ status: HTTPResponse.Status = .ok, _ body: (inout JSONWriter) -> Void) -> Response {
    var json = JSONWriter()
    json.object(body)
    return Response(
      status: status, headers: [.contentType: "application/json"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: json.text)))
  }
}
