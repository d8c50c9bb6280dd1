internal import ArgumentParser
internal import Carillon
internal import Foundation
internal import PushGateway
internal import PushTransport
internal import PushWire

struct SimulateCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "simulate",
    abstract: "Pretends to be Apple's gateway, feedback service and HTTP/2 provider API, including their bad days.",
    discussion: """
      Listens until it gets SIGTERM or SIGINT, and then says what it has accepted and refused, per app. Apps are \
      told apart by their client certificates.
      Without a certificate it makes throw-away ones and says where they are.

        carillon simulate --app com.example.news \\
          --refuse-prefix dead --answer-delay 200ms

      More faults, and different ones per app, go into a YAML file (--rules), for example:

        answer-delay: 200ms
        refuse:
          - { prefixes: [dead], status: 8 }
          - { every: 1000, status: 7, connections: 2 }
        apps:
          com.example.news:
            shutdown: { after: 1000 }
            feedback: [ { token: 0a1b, timestamp: 1400000000 } ]

      With --http2-port it also speaks the HTTP/2 provider API, to client certificates and to provider tokens. Its \
      faults stand under http2: in the rules
      file, for all apps or per app, for example:

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

      A service that closes every connection at once: --close-after 0; that sends GOAWAY on each: --shutdown-after \
      0; that speaks no HTTP/2: --garbage-after 0.
      """)

  @Option(help: "The address to listen on.") var host = "127.0.0.1"
  @Option(help: .init("The port of the gateway; 0 picks a free one.", valueName: "port")) var gatewayPort = 2195
  @Option(help: .init("The port of the feedback service; 0 picks a free one.", valueName: "port")) var feedbackPort =
    2196
  @Option(help: .init("The server's certificate, PEM or PKCS#12 (default: a throw-away one).", valueName: "file"))
  var certificate: String?
  @Option(help: .init("The key of that certificate (default: it is in the same file).", valueName: "file"))
  var key: String?
  @Option(help: .init("A file with the passphrase of the certificate or key (default: none).", valueName: "file"))
  var passphraseFile: String?
  @Option(
    help: .init("The authorities whose client certificates are believed (default: any will do).", valueName: "file"))
  var clientCa: String?
  @Option(help: .init("What goes wrong, as YAML (default: nothing).", valueName: "file")) var rules: String?
  @Option(help: .init("Writes every accepted notification here, as JSON lines (default: nowhere).", valueName: "file"))
  var record: String?
  @Option(
    name: .customLong("app"),
    help: .init(
      "A topic to make a throw-away client certificate for; may be repeated (default: com.example.app).",
      valueName: "topic")) var apps: [String] = []
  @Option(
    help: .init(
      "Makes an authority, a server's and each app's certificate and a token key in this folder, and exits.",
      valueName: "folder")) var makeCertificates: String?
  @OptionGroup(title: "HTTP/2") var http2: SimulateHTTP2Options
  @Flag(
    help: .init(
      "Hands out TLS session tickets, as most servers do: who comes again needs no certificates.",
      discussion: "Off by default: some old clients take a ticket for an answer. Without effect where the rules "
        + "refuse certificates.")) var sessionTickets = false
  @Flag(help: "Ends also when its standard input does: for a program that starts it, and may die.") var untilInputEnds =
    false
  @Flag(help: "JSON on standard output: one line when it listens, one with the counts at the end.") var json = false
  @OptionGroup(title: "Faults, for all apps") var faults: FaultOptions

  /// Called first thing by run(), not by the parser: an unknown flag is to be named before a
  /// missing one.
  private func check() throws {
    try Options.port(gatewayPort, flag: "--gateway-port")
    try Options.port(feedbackPort, flag: "--feedback-port")
    try http2.check()
    if certificate == nil {
      for (flag, value) in [("--key", key), ("--passphrase-file", passphraseFile), ("--client-ca", clientCa)]
      where value != nil {
        throw ValidationError("\(flag) needs --certificate; without one, throw-away certificates are made.")
      }
    } else if !apps.isEmpty {
      throw ValidationError("--app is for throw-away certificates, and --certificate names one; leave one of them out.")
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
    var rules = try RulesFile.rules(file: rules, flags: faults)
    if http2.strict { rules.service.isStrict = true }
    let (identity, throwAway) = identity(topics)
    // Only what was made for this run is taken away again.
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
    // Caught from here on: a signal that comes before the simulator listens must not leave
    // certificates behind.
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

  /// Then it is as if somebody had sent SIGTERM.
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
    StandardStream.output.writeLine(SimulateReport.ready(simulator, host: host, json: json))
  }

  private func make(in directory: String, topics: [String]) throws {
    let (files, tokenKey) = try failing(flag: "--make-certificates") {
      (
        try CertificateMaker.makeAll(in: directory, topics: topics, at: Int64(Date().timeIntervalSince1970)),
        try ServiceSettings.KeyFile.makeThrowAway(in: directory)
      )
    }
    if json {
      var json = JSONWriter()
      json.object {
        $0.field("authority", files.authority)
        $0.object("server") {
          $0.field("certificate", files.server.certificate)
          $0.field("key", files.server.key)
        }
        $0.array("apps", topics) { topic, json in
          json.field("topic", topic)
          json.field("certificate", files.apps[topic]?.certificate)
          json.field("key", files.apps[topic]?.key)
          json.field("p12", files.appContainers[topic]?.certificate)
          json.field("passphraseFile", files.appContainers[topic]?.passphraseFile)
        }
        SimulateReport.key(tokenKey, &$0)
      }
      StandardStream.output.writeLine(json.text)
      return
    }
    var lines = [
      "Authority       \(files.authority)", "Server          \(files.server.certificate), \(files.server.key ?? "")",
    ]
    for topic in topics {
      guard let pem = files.apps[topic], let container = files.appContainers[topic] else { continue }
      lines.append(
        "\(topic)  \(pem.certificate), \(pem.key ?? ""), \(container.certificate), \(container.passphraseFile ?? "")")
    }
    lines.append(
      "Token key       \(tokenKey.file), key identifier \(tokenKey.keyIdentifier), team \(tokenKey.teamIdentifier)")
    StandardStream.output.writeLine(lines.joined(separator: "\n"))
  }
}
