internal import Carillon
internal import PushGateway
internal import PushTransport
internal import PushWire

/// What `simulate` prints when it listens and when it ends.
enum SimulateReport {
  static func ready(_ simulator: GatewaySimulator, host: String, json: Bool) -> String {
    guard json else {
      var text = "Gateway on \(host), port \(simulator.gatewayPort); feedback service on port \(simulator.feedbackPort)"
      if let port = simulator.http2Port { text += "; HTTP/2 on port \(port)" }
      if let port = simulator.channelsPort { text += "; channel management on port \(port)" }
      return text + ". SIGINT (Ctrl-C) ends it."
    }
    var writer = JSONWriter()
    writer.object {
      $0.field("event", "ready")
      $0.field("gateway", simulator.gatewayPort)
      $0.field("feedback", simulator.feedbackPort)
      if let port = simulator.http2Port { $0.field("http2", port) }
      if let port = simulator.channelsPort { $0.field("channels", port) }
      guard simulator.http2Port != nil || simulator.channelsPort != nil, let key = simulator.throwAwayKey else { return }
      self.key(key, &$0)
    }
    return writer.text
  }

  static func key(_ key: ServiceSettings.KeyFile, _ writer: inout JSONWriter) {
    writer.object("tokenKey") {
      $0.field("file", key.file)
      $0.field("keyId", key.keyIdentifier)
      $0.field("teamId", key.teamIdentifier)
    }
  }

  /// Where the material is that was made for this run.
  static func throwAway(_ directory: String, _ simulator: GatewaySimulator) -> String? {
    guard let files = simulator.certificates else { return nil }
    let names = files.apps.values.map { $0.certificate.split(separator: "/").last.map(String.init) ?? "" }.sorted().joined(separator: ", ")
    var text = "Throw-away certificates, gone when this ends: \(directory) (trust ca.pem; clients: \(names), each with its .key)."
    if simulator.http2Port != nil || simulator.channelsPort != nil, let key = simulator.throwAwayKey {
      text += " Throw-away token key: \(key.file) (--key-id \(key.keyIdentifier) --team-id \(key.teamIdentifier))."
    }
    return text
  }

  static func ending(_ truth: GroundTruth) -> String {
    var lines: [String] = []
    for (topic, app) in truth.apps.sorted(by: { $0.key < $1.key }) {
      lines.append(
        "\(topic.escapedForTerminal): \(app.accepted) accepted, \(app.refused.values.reduce(0, +)) refused, "
          + "\(app.discarded) discarded, on \(app.connections) connections")
      for (status, count) in app.refused.sorted(by: { $0.key.rawValue < $1.key.rawValue }) { lines.append("  \(status): \(count)") }
      if app.poisoned > 0 { lines.append("  closed without a packet: \(app.poisoned)") }
      if app.certificatesRefused > 0 { lines.append("  certificates refused: \(app.certificatesRefused)") }
      if app.feedbackServed > 0 { lines.append("  feedback tuples served: \(app.feedbackServed)") }
    }
    for (topic, app) in truth.http2.sorted(by: { $0.key < $1.key }) {
      lines.append("\(topic.escapedForTerminal), HTTP/2: \(app.accepted) accepted, \(app.refusedCount) refused, on \(app.connections) connections")
      for (refusal, count) in app.refused.map({ ("\($0)", $1) }).sorted(by: { $0.0 < $1.0 }) { lines.append("  \(refusal): \(count)") }
      if app.unanswered > 0 { lines.append("  taken, but not answered: \(app.unanswered)") }
      if app.dropped > 0 { lines.append("  neither taken nor answered: \(app.dropped)") }
      if app.unprocessed > 0 { lines.append("  not processed (GOAWAY, REFUSED_STREAM): \(app.unprocessed)") }
      if app.duplicates > 0 { lines.append("  taken twice under one apns-id: \(app.duplicates)") }
      if app.broadcasts > 0 { lines.append("  broadcasts: \(app.broadcasts)") }
    }
    if truth.failedHandshakes > 0 { lines.append("TLS handshakes that failed: \(truth.failedHandshakes)") }
    if lines.isEmpty { lines.append("Nobody connected.") }
    return lines.joined(separator: "\n")
  }
}
