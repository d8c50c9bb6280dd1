internal import PushWire

extension GroundTruth {
  private static func connections(_ count: Int) -> String { count == 1 ? "1 connection" : "\(count) connections" }

  /// What was accepted and refused, in lines for people.
  package var summary: String {
    var lines: [String] = []
    for (topic, app) in apps.sorted(by: { $0.key < $1.key }) {
      lines.append(
        "\(topic.escapedForTerminal): \(app.accepted) accepted, \(app.refused.values.reduce(0, +)) refused, "
          + "\(app.discarded) discarded, on \(Self.connections(app.connections))")
      for (status, count) in app.refused.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
        lines.append("  \(status): \(count)")
      }
      if app.poisoned > 0 { lines.append("  closed without a packet: \(app.poisoned)") }
      if app.certificatesRefused > 0 { lines.append("  certificates refused: \(app.certificatesRefused)") }
      if app.feedbackServed > 0 { lines.append("  feedback tuples served: \(app.feedbackServed)") }
    }
    for (topic, app) in http2.sorted(by: { $0.key < $1.key }) {
      lines.append(
        "\(topic.escapedForTerminal), HTTP/2: \(app.accepted) accepted, \(app.refusedCount) refused, on "
          + Self.connections(app.connections))
      for (refusal, count) in app.refused.map({ ("\($0)", $1) }).sorted(by: { $0.0 < $1.0 }) {
        lines.append("  \(refusal): \(count)")
      }
      if app.unanswered > 0 { lines.append("  taken, but not answered: \(app.unanswered)") }
      if app.dropped > 0 { lines.append("  neither taken nor answered: \(app.dropped)") }
      if app.unprocessed > 0 { lines.append("  not processed (GOAWAY, REFUSED_STREAM): \(app.unprocessed)") }
      if app.duplicates > 0 { lines.append("  taken twice under one apns-id: \(app.duplicates)") }
      if app.broadcasts > 0 { lines.append("  broadcasts: \(app.broadcasts)") }
    }
    if failedHandshakes > 0 { lines.append("TLS handshakes that failed: \(failedHandshakes)") }
    if lines.isEmpty { lines.append("No client connected.") }
    return lines.joined(separator: "\n")
  }
}
