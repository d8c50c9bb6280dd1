package import PushWire

/// What happened at a simulated gateway. Every sender's account must agree with it.
package struct GroundTruth: Hashable, Sendable {
  /// By topic. A topic appears with its first connection, refused certificate or feedback read.
  package var apps: [String: AppTruth] = [:]
  /// What arrived over HTTP/2, by app: the topic without the suffix of its push type. Empty when no
  /// client connected.
  package var http2: [String: ServiceTruth] = [:]
  /// TLS handshakes that failed on any port, including those with a refused certificate.
  package var failedHandshakes = 0
  /// Why the record is not complete, as a sentence. Nil: it is complete, or there is none.
  package var recordProblem: String?

  package init() {}
}

/// The counts of one app.
package struct AppTruth: Hashable, Sendable {
  package var accepted = 0
  /// Refused notifications by status. They also count where command 0 left the client without an
  /// error response.
  package var refused: [GatewayStatus: Int] = [:]
  /// Notifications that the rule `poison` ended a connection for, without an error response.
  package var poisoned = 0
  /// Known-bad probes. They are not notifications.
  package var probes = 0
  /// Frames that were not accepted because they came after a refused one or after the gateway's own
  /// end. Accepted, refused, poisoned, probes and discarded add up to all frames that arrived.
  /// Frames behind one of unknown length cannot be counted.
  package var discarded = 0
  /// Connections with a complete TLS handshake and a certificate that was not refused.
  package var connections = 0
  package var certificatesRefused = 0
  /// Plain bytes received, including discarded ones.
  package var bytes = 0
  package var feedbackServed = 0

  package init() {}
}

extension GroundTruth {
  /// The counts as one JSON object without line breaks, keys in a fixed order.
  ///
  /// ```json
  /// {"event":"stopped","apps":{"com.example.news":{
  ///   "accepted":10,"refused":{"total":1,"byReason":{"8 invalid
  ///   token":1}},"poisoned":0,"probes":1,
  ///   "discarded":3,"connections":2,"certificatesRefused":0,"bytes":2500,"feedbackServed":0}},
  ///  "failedHandshakes":0,
  ///  "http2":{"com.example.news":{
  ///   "accepted":10,"refused":{"total":1,"byReason":{"400 BadDeviceToken":1}},"unanswered":0,
  ///   "dropped":0,"unprocessed":2,"duplicates":0,"broadcasts":0,"connections":2}},
  ///  "recordProblem":"…"}
  /// ```
  /// `http2` and `recordProblem` are left out when they are empty.
  package var json: String {
    JSONWriter.text { json in
      json.field("event", "stopped")
      json.object("apps") { json in
        for (app, truth) in apps.sorted(by: { $0.key < $1.key }) { json.object(app) { truth.write(to: &$0) } }
      }
      json.field("failedHandshakes", failedHandshakes)
      if !http2.isEmpty {
        json.object("http2") { json in
          for (app, truth) in http2.sorted(by: { $0.key < $1.key }) { json.object(app) { truth.write(to: &$0) } }
        }
      }
      json.field("recordProblem", recordProblem)
    }
  }
}

extension AppTruth {
  fileprivate func write(to json: inout JSONWriter) {
    json.field("accepted", accepted)
    json.object("refused") { json in
      json.field("total", refused.values.reduce(0, +))
      json.object("byReason") { json in
        for (reason, count) in refused.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
          json.field(reason.description, count)
        }
      }
    }
    json.field("poisoned", poisoned)
    json.field("probes", probes)
    json.field("discarded", discarded)
    json.field("connections", connections)
    json.field("certificatesRefused", certificatesRefused)
    json.field("bytes", bytes)
    json.field("feedbackServed", feedbackServed)
  }
}
