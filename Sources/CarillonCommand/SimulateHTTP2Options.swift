internal import ArgumentParser
internal import Carillon
internal import PushGateway

/// What `simulate` offers over HTTP/2, and whom it believes.
struct SimulateHTTP2Options: ParsableArguments {
  @Option(
    help: .init("The port of the HTTP/2 provider API; 0 picks a free one (default: not served).", valueName: "port"))
  var http2Port: Int?
  @Option(
    help: .init(
      "The port for managing broadcast channels; 0 picks a free one (default: not served).", valueName: "port"))
  var channelsPort: Int?
  @Option(
    help: .init(
      "A key whose provider tokens are believed, .p8 or public key in PEM; may be repeated (default: a throw-away "
        + "one, made with the certificates).", valueName: "file")) var tokenKey: [String] = []
  @Option(help: .init("The key identifier of each --token-key, in the same order.", valueName: "id"))
  var keyId: [String] = []
  @Option(help: .init("The team of each --token-key, or one for all.", valueName: "id")) var teamId: [String] = []
  @Flag(help: "Refuses what Apple lets pass: no ALPN, DER signatures, fractional times in tokens, upper case apns-ids.")
  var strict = false

  func check() throws {
    if let http2Port { try Options.port(http2Port, flag: "--http2-port") }
    if let channelsPort { try Options.port(channelsPort, flag: "--channels-port") }
    guard keyId.count == tokenKey.count else {
      throw ValidationError("Each --token-key needs its --key-id: there are \(tokenKey.count) and \(keyId.count).")
    }
    guard teamId.count == tokenKey.count || teamId.count == 1 && !tokenKey.isEmpty else {
      throw ValidationError(
        "Each --token-key needs its --team-id, or one --team-id holds for all: there are "
          + "\(tokenKey.count) and \(teamId.count).")
    }
    if http2Port == nil, channelsPort == nil {
      if !tokenKey.isEmpty {
        throw ValidationError("--token-key needs --http2-port: only the HTTP/2 provider API knows tokens.")
      }
      if strict { throw ValidationError("--strict needs --http2-port: it is about the HTTP/2 provider API.") }
    }
  }

  var keys: [ServiceSettings.KeyFile] {
    tokenKey.indices.map {
      ServiceSettings.KeyFile(
        file: tokenKey[$0], keyIdentifier: keyId[$0], teamIdentifier: teamId[teamId.count == 1 ? 0 : $0])
    }
  }
}
