internal import PushGateway
internal import PushTransport

enum SimulateReport {
  static func ready(_ simulator: GatewaySimulator, host: String) -> String {
    var text = "Gateway on \(host), port \(simulator.gatewayPort); feedback service on port \(simulator.feedbackPort)"
    if let port = simulator.http2Port { text += "; HTTP/2 on port \(port)" }
    if let port = simulator.channelsPort { text += "; channel management on port \(port)" }
    return text + ". SIGINT (Ctrl-C) ends it."
  }

  /// Where the certificates and the token key are that were made for this run.
  static func throwAway(_ directory: String, _ simulator: GatewaySimulator) -> String? {
    guard let files = simulator.certificates else { return nil }
    let names = files.apps.values.map { $0.certificate.split(separator: "/").last.map(String.init) ?? "" }.sorted()
      .joined(separator: ", ")
    var text =
      "Certificates for this run, deleted when it ends: \(directory) (trust ca.pem; clients: \(names), each "
      + "with its .key)."
    if simulator.http2Port != nil || simulator.channelsPort != nil, let key = simulator.throwAwayKey {
      text += " Token key for this run: \(key.file) (--key-id \(key.keyIdentifier) --team-id \(key.teamIdentifier))."
    }
    return text
  }

  /// The files of `--make-certificates`.
  static func table(_ made: SimulatorMaterial) -> String {
    let (files, key) = (made.files, made.tokenKey)
    var lines = [
      "Authority       \(files.authority)", "Server          \(files.server.certificate), \(files.server.key ?? "")",
    ]
    for topic in made.topics {
      guard let pem = files.apps[topic], let container = files.appContainers[topic] else { continue }
      lines.append(
        "\(topic)  \(pem.certificate), \(pem.key ?? ""), \(container.certificate), \(container.passphraseFile ?? "")")
    }
    lines.append("Token key       \(key.file), key identifier \(key.keyIdentifier), team \(key.teamIdentifier)")
    return lines.joined(separator: "\n")
  }
}
