package import PushWire
internal import Synchronization

/// A record of HTTP/2 requests in memory, for tests: complete, unbounded, and locked for each request.
package final class RecordedRequests: Sendable {
  package struct Request: Hashable, Sendable {
    package var app: String
    /// As the client wrote it; nil: it did not.
    package var topic: String?
    /// The service's number of the connection, from 1.
    package var connection: Int
    package var streamID: Int32
    /// Nil when the request had none that is one.
    package var token: DeviceToken?
    /// Of a broadcast.
    package var channel: String?
    /// What the client chose; nil: nothing that is one.
    package var identifier: APNSIdentifier?
    package var pushType: String?
    package var priority: String?
    package var expiration: String?
    package var collapseIdentifier: String?
    package var payload: [UInt8]
    /// Nil: taken.
    package var refusal: ServiceRefusal?
    /// False: by a rule there is no answer.
    package var isAnswered: Bool
  }

  /// A notification as its sender knows it.
  package struct Delivery: Hashable, Sendable {
    package var token: DeviceToken
    package var identifier: APNSIdentifier?

    package init(token: DeviceToken, identifier: APNSIdentifier?) {
      self.token = token
      self.identifier = identifier
    }
  }

  private struct State {
    var requests: [Request] = []
    /// Shared by the requests that carry it: a campaign's payload is held once.
    var lastPayload: [UInt8] = []
    /// The same for topics, most of which are too long to fit into a string's own bytes.
    var lastTopic: (bytes: [UInt8], text: String) = ([], "")
  }

  private let state = Mutex(State())

  package init() {}

  /// All requests that were taken or refused, in the order in which that was decided.
  package var requests: [Request] { state.withLock { $0.requests } }

  /// The exact multiset of what was taken: how often each token with each identifier. More than once is a duplicate.
  package func accepted(app: String) -> [Delivery: Int] {
    state.withLock { state in
      var deliveries: [Delivery: Int] = [:]
      for request in state.requests where request.refusal == nil && request.app == app {
        if let token = request.token { deliveries[Delivery(token: token, identifier: request.identifier), default: 0] += 1 }
      }
      return deliveries
    }
  }

  func append(
    _ request: ServiceRequest, app: String, connection: Int, token: UnsafeRawBufferPointer, identifier: APNSIdentifier?, refusal: ServiceRefusal?,
    isAnswered: Bool
  ) {
    func text(_ bytes: UnsafeRawBufferPointer?) -> String? { unsafe bytes.map { unsafe Text.string($0) } }
    state.withLock { state in
      if unsafe !state.lastPayload.holdsSameBytes(as: request.body) { state.lastPayload = unsafe Array(request.body) }
      if let topic = unsafe request.topic, unsafe !state.lastTopic.bytes.holdsSameBytes(as: topic) {
        state.lastTopic = unsafe (Array(topic), Text.string(topic))
      }
      state.requests.append(
        unsafe Request(
          app: app, topic: request.topic == nil ? nil : state.lastTopic.text, connection: connection, streamID: request.streamID,
          token: DeviceToken(bytes: token),
          channel: text(request.channel), identifier: identifier, pushType: text(request.pushType), priority: text(request.priority),
          expiration: text(request.expiration), collapseIdentifier: text(request.collapseIdentifier), payload: state.lastPayload, refusal: refusal,
          isAnswered: isAnswered
        )
      )
    }
  }
}
