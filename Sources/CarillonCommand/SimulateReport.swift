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
      guard simulator.http2Port != nil || simulator.channelsPort != nil, let key = simulator.throwAwayKey else {
        return
      }
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
    let names = files.apps.values.map { $0.certificate.split(separator: "/").last.map(String.init) ?? "" }.sorted()
      .joined(separator: ", ")
    var text =
      "Throw-away certificates, gone when this ends: \(directory) (trust ca.pem; clients: \(names), each "
      + "with its .key)."
    if simulator.http2Port != nil || simulator.channelsPort != nil, let key = simulator.throwAwayKey {
      text += " Throw-away token key: \(key.file) (--key-id \(key.keyIdentifier) --team-id \(key.teamIdentifier))."
    }
    return text
  }
}
