internal import ArgumentParser
internal import Carillon
internal import Foundation
internal import PushGateway
internal import PushTransport

struct SimulateCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "simulate",
    abstract: "Simulates Apple's gateway, feedback service and HTTP/2 provider API, with faults.",
    discussion: """
      Listens until it gets SIGTERM or SIGINT, then prints for each app what it accepted and refused. Client \
      certificates identify the apps.
      Without --certificate it makes certificates for this run, prints where they are, and deletes them at the end.

        carillon simulate --app com.example.news \\
          --refuse-prefix dead --answer-delay 200ms

      A YAML file (--rules) has more faults, also for single apps, for example:

        answer-delay: 200ms
        refuse:
          - { prefixes: [dead], status: 8 }
          - { every: 1000, status: 7, connections: 2 }
        apps:
          com.example.news:
            shutdown: { after: 1000 }
            feedback: [ { token: 0a1b, timestamp: 1400000000 } ]

      With --http2-port it also serves the HTTP/2 provider API, with client certificates and provider tokens. Its \
      faults stand under http2: in the rules file, for all apps or for single apps, for example:

        http2:
          delay: { exponential: 20ms }
          refuse:
            - { every: 1000, reason: Unregistered }
            - { every: 100, reason: TooManyRequests, times: 1 }
          goaway: { after: 50000, reason: Shutdown }
          reset: { every: 500, code: 7 }
          limits: [ { after: 2000, to: 5 }, { after: 3000, to: 1000 } ]
          poison: { prefixes: [dead] }
          outage: { from: 5s, for: 15s }

      --close-after 0 closes every connection at once, --shutdown-after 0 sends GOAWAY on each, and \
      --garbage-after 0 sends bytes that are not HTTP/2.
      """)

  @Option(help: "The address to listen on.") var host = "127.0.0.1"
  @Option(help: .init("The port of the gateway; 0 picks a free one.", valueName: "port")) var gatewayPort = 2195
  @Option(help: .init("The port of the feedback service; 0 picks a free one.", valueName: "port")) var feedbackPort =
    2196
  @Option(help: .init("The server's certificate, PEM or PKCS#12 (default: one made for this run).", valueName: "file"))
  var certificate: String?
  @Option(help: .init("The key of that certificate (default: the key in the same file).", valueName: "file"))
  var key: String?
  @Option(
    help: .init(
      "A file whose first line is the passphrase of the certificate or key (default: none).", valueName: "file"))
  var passphraseFile: String?
  @Option(
    help: .init(
      "The trusted authorities for client certificates (default: any certificate is accepted).", valueName: "file"))
  var clientCa: String?
  @Option(help: .init("The fault rules, a YAML file (default: no faults).", valueName: "file")) var rules: String?
  @Option(
    help: .init(
      "Records every accepted notification in this file, as JSON lines (default: no record).", valueName: "file"))
  var record: String?
  @Option(
    name: .customLong("app"),
    help: .init(
      "A topic to make a client certificate for; may be repeated (default: com.example.app).",
      valueName: "topic")) var apps: [String] = []
  @Option(
    help: .init(
      "Makes an authority, certificates for the server and the apps, and a token key in this folder, and exits.",
      valueName: "folder")) var makeCertificates: String?
  @OptionGroup(title: "HTTP/2") var http2: SimulateHTTP2Options
  @Flag(
    help: .init(
      "Sends TLS session tickets, as most servers do: a client that reconnects sends no certificate.",
      discussion: "Off by default, because some old clients mistake a ticket for an answer. No effect where the "
        + "rules refuse certificates.")) var sessionTickets = false
  @Flag(help: "Also ends when its standard input ends, for a program that starts it.") var untilInputEnds = false
  @Flag(help: "Prints JSON on standard output: one line when it listens, one with the counts at the end.") var json =
    false
  @OptionGroup(title: "Faults, for all apps") var faults: FaultOptions

  /// Called by run(), so that the parser reports an unknown flag before a missing one.
  private func check() throws {
    try Options.port(gatewayPort, flag: "--gateway-port")
    try Options.port(feedbackPort, flag: "--feedback-port")
    try http2.check()
    if certificate == nil {
      let flags = [("--key", key), ("--passphrase-file", passphraseFile), ("--client-ca", clientCa)]
      try Options.require("--certificate", for: flags.map { ($0, $1 != nil) })
    } else if !apps.isEmpty {
      throw ValidationError("--app and --certificate exclude each other: --app makes a certificate for this run.")
    }
    if makeCertificates != nil, certificate != nil {
      throw ValidationError("--make-certificates and --certificate exclude each other.")
    }
    try faults.check()
  }

  func run() async throws {
    try check()
    let topics = apps.isEmpty ? ["com.example.app"] : apps
    if let makeCertificates { return try make(in: makeCertificates, topics: topics) }
    var rules = try faults.rules(file: rules)
    if http2.strict { rules.service.isStrict = true }
    let (identity, throwAway) = identity(topics)
    // Only what was made for this run is deleted.
    defer { if let throwAway { try? FileManager.default.removeItem(atPath: throwAway) } }

    var configuration = GatewaySimulator.Configuration(identity: identity)
    configuration.host = host
    configuration.gatewayPort = gatewayPort
    configuration.feedbackPort = feedbackPort
    configuration.http2Port = http2.http2Port
    configuration.channelsPort = http2.channelsPort
    configuration.tokenKeys = http2.keys
    configuration.rules = rules
    configuration.recordPath = record
    configuration.sendsTickets = sessionTickets
    configuration.lacksDescriptors = { StandardStream.error.writeLine("carillon: \($0).") }
    // Signals are caught before it listens, so that an early one leaves no certificates behind.
    let (watch, signals) = SignalWatch.arrivals()
    defer { watch.stop() }
    let simulator: GatewaySimulator
    do { simulator = try await GatewaySimulator.start(configuration) } catch { throw CommandFailure.describing(error) }
    sayReady(simulator, throwAway)
    if untilInputEnds { Thread.detachNewThread { Self.waitForEndOfInput() } }
    for await _ in signals { break }
    let truth = await simulator.stop()
    StandardStream.output.writeLine(json ? truth.json : truth.summary)
    if let problem = truth.recordProblem { throw CommandFailure.couldNotRun(problem) }
  }

  /// Sends SIGTERM to this process at the end of standard input.
  private static func waitForEndOfInput() {
    var block = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = unsafe read(STDIN_FILENO, &block, block.count)
      if count == 0 || (count < 0 && errno != EINTR) { break }
    }
    kill(getpid(), SIGTERM)
  }

  private func identity(_ topics: [String]) -> (GatewaySimulator.Identity, throwAway: String?) {
    if let certificate {
      return (
        .files(
          CredentialFiles(certificate: certificate, key: key, passphraseFile: passphraseFile), clientAuthority: clientCa
        ), nil
      )
    }
    let name = "carillon-simulate-\(UUID().uuidString.prefix(8).lowercased())"
    let directory = FileManager.default.temporaryDirectory.appending(path: name).path(percentEncoded: false)
    return (.throwAway(directory: directory, topics: topics), directory)
  }

  private func sayReady(_ simulator: GatewaySimulator, _ throwAway: String?) {
    if let throwAway, let line = SimulateReport.throwAway(throwAway, simulator) { StandardStream.error.writeLine(line) }
    StandardStream.output.writeLine(json ? simulator.readyJSON : SimulateReport.ready(simulator, host: host))
  }

  private func make(in directory: String, topics: [String]) throws {
    let made = try failing(flag: "--make-certificates") {
      try SimulatorMaterial.make(in: directory, topics: topics, at: Int64(Date().timeIntervalSince1970))
    }
    StandardStream.output.writeLine(json ? made.json : SimulateReport.table(made))
  }
}

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
  @Flag(help: "Refuses what Apple accepts: no ALPN, DER signatures, fractional times in tokens, upper-case apns-ids.")
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
