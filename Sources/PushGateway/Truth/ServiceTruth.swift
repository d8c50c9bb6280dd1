/// What the HTTP/2 service knows to have happened to one app.
package struct ServiceTruth: Hashable, Sendable {
  /// Notifications taken, whether or not their senders could be told.
  package var accepted = 0
  /// Broadcasts to a channel, taken; not in ``accepted``.
  package var broadcasts = 0
  package var refused: [ServiceRefusal: Int] = [:]
  /// Of those taken: for which no answer has left, by a rule or because the connection or stream was gone first.
  /// What a network or a client loses afterwards cannot be known here.
  package var unanswered = 0
  /// Neither taken nor answered: swallowed by a rule, or come after the connection's end.
  package var dropped = 0
  /// Not processed, as the client was told: RST_STREAM with REFUSED_STREAM, or above the last stream of a GOAWAY. Accepted, broadcasts, refused, dropped and
  /// unprocessed together are all complete requests that arrived.
  package var unprocessed = 0
  /// Of those taken: with an `apns-id` that had been taken before, as far back as the last million of the app at least.
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
  /// One JSON object, keys in a fixed order.
  package var json: String {
    let reasons = refused.map { ("\($0)", $1) }.sorted { $0.0 < $1.0 }.map { "\(JSONText.quoted($0)):\($1)" }.joined(separator: ",")
    return "{\"accepted\":\(accepted),\"refused\":{\"total\":\(refusedCount),\"byReason\":{\(reasons)}},\"unanswered\":\(unanswered),"
      + "\"dropped\":\(dropped),\"unprocessed\":\(unprocessed),\"duplicates\":\(duplicates),\"broadcasts\":\(broadcasts),\"connections\":\(connections)}"
  }
}
