internal import ArgumentParser
internal import Carillon
internal import PushGateway

/// The HTTP/2 services of `simulate`, and the token keys that they accept.
struct SimulateHTTP2Options: ParsableArguments {
  @Option(
    help: .init("The port of the HTTP/2 provider API; 0 picks a free port (default: not served).", valueName: "port"))
  var http2Port: Int?
  @Option(
    help: .init(
      "The port of the channel management service; 0 picks a free port (default: not served).", valueName: "port"))
  var channelsPort: Int?
  @Option(
    help: .init(
      "A key whose provider tokens are accepted, .p8 or public key in PEM; may be repeated (default: a key made for "
        + "this run).", valueName: "file")) var tokenKey: [String] = []
  @Option(help: .init("The key identifier of each --token-key, in the same order.", valueName: "id"))
  var keyId: [String] = []
  @Option(help: .init("The team of each --token-key, or one team for all.", valueName: "id")) var teamId: [String] = []
  @Flag(
    help: "Refuses what Apple accepts: no ALPN, DER signatures, fractional times in tokens, upper-case apns-ids.")
  var strict = false

  func check() throws {
    try Options.port(http2Port, flag: "--http2-port")
    try Options.port(channelsPort, flag: "--channels-port")
    guard keyId.count == tokenKey.count else {
      throw ValidationError("Each --token-key needs a --key-id: there are \(tokenKey.count) and \(keyId.count).")
    }
    guard teamId.count == tokenKey.count || teamId.count == 1 && !tokenKey.isEmpty else {
      throw ValidationError(
        "Each --token-key needs a --team-id, or all have the same: there are \(tokenKey.count) and \(teamId.count).")
    }
    if http2Port == nil, channelsPort == nil {
      try Options.require("--http2-port", for: [("--token-key", !tokenKey.isEmpty), ("--strict", strict)])
    }
  }

  var keys: [ServiceSettings.KeyFile] {
    tokenKey.indices.map {
      ServiceSettings.KeyFile(
        file: tokenKey[$0], keyIdentifier: keyId[$0], teamIdentifier: teamId[teamId.count == 1 ? 0 : $0])
    }
  }
}
