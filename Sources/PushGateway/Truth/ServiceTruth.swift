internal import PushWire

/// What happened to one app at the HTTP/2 service.
package struct ServiceTruth: Hashable, Sendable {
  /// Accepted notifications, whether or not a response left.
  package var accepted = 0
  /// Accepted broadcasts to a channel. Not in ``accepted``.
  package var broadcasts = 0
  package var refused: [ServiceRefusal: Int] = [:]
  /// Accepted requests for which no response left: a rule withheld it, or the connection or stream
  /// ended first. Responses that are lost later, in the network or in the client, cannot be counted
  /// here.
  package var unanswered = 0
  /// Requests that were neither accepted nor answered: discarded by a rule, or received after the
  /// connection's end.
  package var dropped = 0
  /// Requests that were not processed. The client knows that: by RST_STREAM with REFUSED_STREAM, or
  /// by a GOAWAY with a lower stream. Accepted, broadcasts, refused, dropped and unprocessed add up
  /// to all complete requests that arrived.
  package var unprocessed = 0
  /// Accepted notifications whose `apns-id` had been accepted before, among at least the app's last
  /// million.
  package var duplicates = 0
  /// Connections that carried requests for the app, or whose certificate is the app's.
  package var connections = 0

  package init() {}

  package mutating func add(_ other: ServiceTruth) {
    accepted += other.accepted
    broadcasts += other.broadcasts
    refused.merge(other.refused, uniquingKeysWith: +)
    unanswered += other.unanswered
    dropped += other.dropped
    unprocessed += other.unprocessed
    duplicates += other.duplicates
    connections += other.connections
  }

  package var refusedCount: Int { refused.values.reduce(0, +) }
}

extension ServiceTruth {
  func write(to json: inout JSONWriter) {
    json.field("accepted", accepted)
    json.object("refused") { json in
      json.field("total", refusedCount)
      json.object("byReason") { json in
        for (reason, count) in refused.map({ ("\($0)", $1) }).sorted(by: { $0.0 < $1.0 }) { json.field(reason, count) }
      }
    }
    json.field("unanswered", unanswered)
    json.field("dropped", dropped)
    json.field("unprocessed", unprocessed)
    json.field("duplicates", duplicates)
    json.field("broadcasts", broadcasts)
    json.field("connections", connections)
  }
}
