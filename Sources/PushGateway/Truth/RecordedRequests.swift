internal import PushTransport
package import PushWire
internal import Synchronization

/// A record of HTTP/2 requests in memory, for tests. It is complete, has no limit, and takes a lock
/// for each request.
package final class RecordedRequests: Sendable {
  package struct Request: Hashable, Sendable {
    package var app: String
    /// As the client wrote it; nil: there was none.
    package var topic: String?
    /// The service's number of the connection, from 1.
    package var connection: Int
    package var streamID: Int32
    /// Nil: the request had no valid token.
    package var token: TokenBytes?
    /// The channel of a broadcast.
    package var channel: String?
    /// The identifier that the client chose; nil: none, or not a valid one.
    package var identifier: APNSIdentifier?
    package var pushType: String?
    package var priority: String?
    package var expiration: String?
    package var collapseIdentifier: String?
    package var payload: [UInt8]
    /// Nil: accepted.
    package var refusal: ServiceRefusal?
    /// False: a rule withheld the response.
    package var isAnswered: Bool
  }

  /// A notification as its sender knows it.
  package struct Delivery: Hashable, Sendable {
    package var token: TokenBytes
    package var identifier: APNSIdentifier?

    package init(token: TokenBytes, identifier: APNSIdentifier?) {
      (self.token, self.identifier) = (token, identifier)
    }
  }

  private struct State {
    var requests: [Request] = []
    /// Shared by the requests that carry it, so a campaign's payload is held once.
    var lastPayload: [UInt8] = []
    /// The same for topics: most are longer than the 15 bytes that a string stores inline.
    var lastTopic: (bytes: [UInt8], text: String) = ([], "")
  }

  private let state = Mutex(State())

  package init() {}

  /// All accepted and refused requests, in the order of the decisions.
  package var requests: [Request] { state.withLock { $0.requests } }

  /// How often each token was accepted with each identifier. More than once is a duplicate.
  package func accepted(app: String) -> [Delivery: Int] {
    state.withLock { state in
      var deliveries: [Delivery: Int] = [:]
      for request in state.requests where request.refusal == nil && request.app == app {
        if let token = request.token {
          deliveries[Delivery(token: token, identifier: request.identifier), default: 0] += 1
        }
      }
      return deliveries
    }
  }

  func append(
    _ request: ServiceRequest, app: String, connection: Int, token: UnsafeRawBufferPointer, identifier: APNSIdentifier?,
    refusal: ServiceRefusal?, isAnswered: Bool
  ) {
    func text(_ bytes: UnsafeRawBufferPointer?) -> String? { unsafe bytes.map { unsafe Text.string($0) } }
    state.withLock { state in
      if unsafe !state.lastPayload.holdsSameBytes(as: request.body) { state.lastPayload = unsafe Array(request.body) }
      if let topic = unsafe request.topic, unsafe !state.lastTopic.bytes.holdsSameBytes(as: topic) {
        state.lastTopic = unsafe (Array(topic), Text.string(topic))
      }
      state.requests.append(
        unsafe Request(
          app: app, topic: request.topic == nil ? nil : state.lastTopic.text, connection: connection,
          streamID: request.streamID, token: TokenBytes(bytes: token), channel: text(request.channel),
          identifier: identifier, pushType: text(request.pushType), priority: text(request.priority),
          expiration: text(request.expiration), collapseIdentifier: text(request.collapseIdentifier),
          payload: state.lastPayload, refusal: refusal, isAnswered: isAnswered))
    }
  }
}
