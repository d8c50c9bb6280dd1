internal import NIOCore

@testable internal import PushTransport

/// Two sessions and the bytes between them, which are delivered in pieces of any size.
struct SessionPair {
  enum Side: CaseIterable { case client, server }

  let client: TLSSession
  let server: TLSSession
  var toServer = ByteBuffer()
  var toClient = ByteBuffer()
  var atServer = ByteBuffer()
  var atClient = ByteBuffer()
  var ends: [Side: TLSSession.End] = [:]

  init(_ clientContext: TLSContext, _ serverContext: TLSContext, host: String? = "localhost") throws {
    client = try TLSSession(clientContext, host: host)
    server = try TLSSession(serverContext)
    var output = ByteBuffer()
    _ = client.start(output: &output)
    toServer.writeBuffer(&output)
    _ = server.start(output: &toClient)
  }

  /// Delivers up to `count` bytes to one side.
  mutating func carry(_ count: Int, to side: Side) {
    switch side {
    case .server:
      guard let piece = toServer.readSlice(length: min(count, toServer.readableBytes)) else { return }
      if let end = unsafe piece.withUnsafeReadableBytes({
        unsafe server.receive($0, plaintext: &atServer, output: &toClient)
      }).end {
        ends[.server] = end
      }
    case .client:
      guard let piece = toClient.readSlice(length: min(count, toClient.readableBytes)) else { return }
      if let end = unsafe piece.withUnsafeReadableBytes({
        unsafe client.receive($0, plaintext: &atClient, output: &toServer)
      }).end {
        ends[.client] = end
      }
    }
  }

  mutating func carryAll() {
    while toServer.readableBytes > 0 || toClient.readableBytes > 0 {
      carry(.max, to: .server)
      carry(.max, to: .client)
    }
  }

  mutating func write(_ bytes: [UInt8], from side: Side) throws {
    try unsafe bytes.withUnsafeBytes { raw in
      if side == .client {
        try unsafe client.write(raw, output: &toServer)
      } else {
        try unsafe server.write(raw, output: &toClient)
      }
    }
  }
}
