package import PushWire

/// What a simulated gateway knows to have happened: the measure that every sender's account must agree with.
package struct GroundTruth: Hashable, Sendable {
  /// By topic; a topic appears with its first connection, refused certificate or feedback read.
  package var apps: [String: AppTruth] = [:]
  /// What came over HTTP/2, by app: the topic without the suffix of its push type. Empty if nobody came.
  package var http2: [String: ServiceTruth] = [:]
  /// TLS handshakes that failed on any port, refused certificates included.
  package var failedHandshakes = 0
  /// Why the record is not complete, as a sentence; nil when it is, or when none was asked for.
  package var recordProblem: String?

  package init() {}

  /// The sum over all apps.
  package var total: AppTruth { apps.values.reduce(into: AppTruth()) { $0.add($1) } }
  /// The sum over all apps of what came over HTTP/2.
  package var http2Total: ServiceTruth { http2.values.reduce(into: ServiceTruth()) { $0.add($1) } }
}

/// The counts of one app.
package struct AppTruth: Hashable, Sendable {
  package var accepted = 0
  /// Notifications that were refused, by the status that they deserved, whether the client could be told it (commands 1 and 2) or not (command 0).
  package var refused: [GatewayStatus: Int] = [:]
  /// Notifications that ended their connection without a packet by the rule `poison`.
  package var poisoned = 0
  /// Known-bad probes; not notifications.
  package var probes = 0
  /// Frames that came after a refused one or after the gateway's own end, and so were not accepted. Accepted, refused, poisoned, probes and discarded together
  /// are all frames that arrived; only what comes behind a frame whose length is not known cannot be counted.
  package var discarded = 0
  /// Connections whose TLS handshake was complete and whose certificate was not refused.
  package var connections = 0
  package var certificatesRefused = 0
  /// Plain bytes received, discarded ones included.
  package var bytes = 0
  package var feedbackServed = 0

  package init() {}

  package mutating func add(_ other: AppTruth) {
    accepted += other.accepted
    refused.merge(other.refused, uniquingKeysWith: +)
    poisoned += other.poisoned
    probes += other.probes
    discarded += other.discarded
    connections += other.connections
    certificatesRefused += other.certificatesRefused
    bytes += other.bytes
    feedbackServed += other.feedbackServed
  }
}

extension GroundTruth {
  /// The counts as one JSON object without line breaks, keys in a fixed order:
  /// `{"event":"stopped","apps":{"com.example.news":{"accepted":10,"refused":{"total":1,"byReason":{"8 invalid token":1}},"poisoned":0,"probes":1,"discarded":3,`
  /// `"connections":2,"certificatesRefused":0,"bytes":2500,"feedbackServed":0}},"failedHandshakes":0}`; then, when there is something to say,
  /// `"http2":{"com.example.news":{"accepted":10,"refused":{"total":1,"byReason":{"400 BadDeviceToken":1}},"unanswered":0,"dropped":0,"unprocessed":2,`
  /// `"duplicates":0,"broadcasts":0,"connections":2}}` and `"recordProblem":"…"`.
  package var json: String {
    var text = "{\"event\":\"stopped\",\"apps\":{"
    text += apps.sorted { $0.key < $1.key }.map { "\(JSONText.quoted($0)):\($1.json)" }.joined(separator: ",")
    text += "},\"failedHandshakes\":\(failedHandshakes)"
    if !http2.isEmpty { text += ",\"http2\":{" + http2.sorted { $0.key < $1.key }.map { "\(JSONText.quoted($0)):\($1.json)" }.joined(separator: ",") + "}" }
    if let recordProblem { text += ",\"recordProblem\":\(JSONText.quoted(recordProblem))" }
    return text + "}"
  }
}

extension AppTruth {
  package var json: String {
    let reasons = refused.sorted { $0.key.rawValue < $1.key.rawValue }.map { "\(JSONText.quoted($0.description)):\($1)" }.joined(separator: ",")
    let total = refused.values.reduce(0, +)
    return "{\"accepted\":\(accepted),\"refused\":{\"total\":\(total),\"byReason\":{\(reasons)}},\"poisoned\":\(poisoned),"
      + "\"probes\":\(probes),\"discarded\":\(discarded),"
      + "\"connections\":\(connections),\"certificatesRefused\":\(certificatesRefused),\"bytes\":\(bytes),\"feedbackServed\":\(feedbackServed)}"
  }
}

/// Texts inside JSON.
enum JSONText {
  static func quoted(_ text: String) -> String {
    var quoted = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": quoted += "\\\""
      case "\\": quoted += "\\\\"
      case "\u{0}"..."\u{1F}":
        let digits = String(scalar.value, radix: 16)
        quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: quoted.unicodeScalars.append(scalar)
      }
    }
    return quoted + "\""
  }
}
