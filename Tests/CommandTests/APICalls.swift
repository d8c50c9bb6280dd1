internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import NIOCore
internal import NIOEmbedded
internal import Support

@testable internal import PushServer

/// Asks a responder of the service what a listener would ask it.
final class APICalls: Sendable {
  private let responder: ControlResponder
  private let logger: Logger
  /// Calls under way.
  private let count = Watched(0)

  /// The name of the service for its clients.
  static let authority = "127.0.0.1:8480"
  /// Of a request's body.
  private static let portion = 32 << 10

  init(_ responder: ControlResponder, _ logger: Logger) { (self.responder, self.logger) = (responder, logger) }

  /// Returns when no call is under way.
  func finished() async { await count.wait { $0 == 0 } }

  func reply(
    _ path: String, method: String, headers: [String: String], body: Data?
  ) async throws -> ServeSite.Reply {
    let bytes = Watched(Data())
    let head = try await call(path, method: method, headers: headers, body: body) { part in
      bytes.change { $0.append(contentsOf: part.readableBytesView) }
    }
    var fields: [String: String] = [:]
    for field in head.headerFields {
      let name = field.name.canonicalName
      fields[name] = fields[name].map { "\($0), \(field.value)" } ?? field.value
    }
    return ServeSite.Reply(status: head.status.code, body: bytes.read { $0 }, headers: fields)
  }

  /// - Parameter receive: gets each part of the answer's body when it is written.
  func call(
    _ path: String, method: String, headers: [String: String], body: Data?,
    receive: @escaping @Sendable (ByteBuffer) async throws -> Void
  ) async throws -> HTTPResponse {
    count.change { $0 += 1 }
    defer { count.change { $0 -= 1 } }
    var head = HTTPRequest(
      method: HTTPRequest.Method(rawValue: method) ?? .get, scheme: "http",
      authority: headers["Host"] ?? Self.authority,
      path: path)
    for (name, value) in headers where name != "Host" {
      if let name = HTTPField.Name(name) { head.headerFields[name] = value }
    }
    if method != "GET" { head.headerFields[.contentLength] = "\(body?.count ?? 0)" }
    // An end of a connection that leads nowhere.
    let channel = NIOAsyncTestingChannel()
    try await channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).get()
    defer { channel.close(promise: nil) }
    var logger = logger
    logger[metadataKey: "hb.request.id"] = "\(UUID())"
    let response = try await responder.respond(
      to: Request(head: head, body: RequestBody(asyncSequence: Self.parts(of: body ?? Data()))),
      context: ControlContext(source: ApplicationRequestContextSource(channel: channel, logger: logger)))
    try await response.body.write(BodyReceiver(receive: receive))
    return response.head
  }

  private static func parts(of body: Data) -> AsyncStream<ByteBuffer> {
    AsyncStream { source in
      for start in stride(from: 0, to: body.count, by: portion) {
        source.yield(ByteBuffer(bytes: body[start..<min(start + portion, body.count)]))
      }
      source.finish()
    }
  }
}

private struct BodyReceiver: ResponseBodyWriter {
  let receive: @Sendable (ByteBuffer) async throws -> Void

  func write(_ buffer: ByteBuffer) async throws { try await receive(buffer) }
  func finish(_ trailingHeaders: HTTPFields?) {}
}
