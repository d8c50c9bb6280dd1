internal import HummingbirdCore
internal import NIOCore

/// The body of a request that says `Expect: 100-continue`: its client sends it when the handler
/// reads it.
struct ContinuedBody: AsyncSequence, Sendable {
  let body: RequestBody
  let channel: any Channel

  struct AsyncIterator: AsyncIteratorProtocol {
    var iterator: RequestBody.AsyncIterator
    /// Nil once the body was asked for.
    var channel: (any Channel)?

    mutating func next() async throws -> ByteBuffer? {
      channel.take()?.triggerUserOutboundEvent(BodyWanted(), promise: nil)
      return try await iterator.next()
    }
  }

  func makeAsyncIterator() -> AsyncIterator { AsyncIterator(iterator: body.makeAsyncIterator(), channel: channel) }
}
