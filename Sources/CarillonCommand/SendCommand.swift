internal import ArgumentParser
internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushServer
internal import PushTransport
internal import PushWire

struct SendCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "send", abstract: "Sends a payload to everyone in a token file, and accounts for each of them.",
    discussion: """
      A token file has one token per line, or is CSV with a header that has a column "token"; other columns fill \
      {{column}} in the payload. "-" is standard input.

        carillon send --gateway gateway.example.com:2195 \\
          --certificate news.pem --key news.key \\
          --payload hello.json --tokens tokens.txt
        carillon send --config carillon.yaml --app news \\
          --payload hello.json --tokens people.csv --outcomes problems.csv
        carillon send --config carillon.yaml --campaign today.yaml --json
        carillon send --transport http2 --environment production \\
          --token-key AuthKey_ABC123DEFG.p8 --team-id DEF123GHIJ \\
          --topic com.example.news --payload hello.json --tokens people.csv

      A campaign file sends to several apps at once: a YAML list such as

        - { app: news, payload: hello.json, tokens: people.csv, expiration: 1h }
        - { app: chat, payload: chat.json, tokens: chat.txt, priority: 10 }

      Over HTTP/2 every notification has an apns-id, the same each time it is sent, and every request is answered. \
      The columns "apns-id" and "collapse-id" of a token \
      file give single notifications their own; an empty field leaves it to the campaign. --gone lists the devices \
      that no longer have the app, as carillon \
      feedback does for the binary protocol.

      With --journal DIR a campaign survives its process: whether that is killed, interrupted, or stopped by a \
      full disk,

        carillon send --resume --journal DIR

      goes on where it was. What was certainly not sent is sent, what may have arrived or not is treated by \
      --on-unknown, and the account and the list of \
      outcomes cover the whole campaign. The rest is remembered: beside these --resume takes --sync, \
      --skip-damaged, --json, and --config for apps whose \
      settings have changed. Payload and token files must still be what they were.

      The first SIGINT (Ctrl-C), SIGTERM or SIGHUP takes in nothing more, waits for what is in flight, and accounts \
      for it; a second SIGINT or SIGTERM closes every connection: what is in flight becomes unknown.
      Exit status: 0 all accepted, 1 some were not (the account says why), 2 wrong flags or files (nothing was sent), \
      3 it could not run, or the account could not be written to standard output (it is on standard error then).
      """)

  @Option(help: .init("A configuration file with one or more apps.", valueName: "file")) var config: String?
  @Option(
    help: .init(
      "The app to send through (default with --config: the only one; otherwise the certificate's topic).",
      valueName: "id")) var app: String?
  @Option(help: .init("A YAML list of what to send through which app; needs --config.", valueName: "file"))
  var campaign: String?
  @Option(help: .init("The gateway, when there is no configuration file.", valueName: "host:port")) var gateway: String?
  @OptionGroup var provider: ProviderFlags
  @OptionGroup var identity: IdentityOptions
  @Option(help: .init("The payload, a JSON file.", valueName: "file")) var payload: String?
  @Option(help: .init("The token file; - is standard input.", valueName: "file")) var tokens: String?
  @Option(
    help: .init("Connections to the gateway, 1 to 1000 (default: 1, and up to 8 when they are needed).", valueName: "n")
  ) var connections: Int?
  @Option(
    help: .init(
      "New connections a minute, all together (default: 3000 to Apple's hosts, 60000 to any other).", valueName: "n"))
  var connectionsPerMinute: Int?
  @Option(help: .init("The frame layout (default: 2).", valueName: "0|1|2")) var command: Int?
  @Option(
    help: .init(
      "Until when to deliver: seconds from now, a duration such as 2h, a UNIX time, or 0 for now or never (default: "
        + "not said).", valueName: "seconds")) var expiration: String?
  @Option(
    name: [.long, .customLong("apns-priority")],
    help: .init(
      "10: at once; 5: when it saves power; 1, over HTTP/2: without ever waking the device (default: not said).",
      valueName: "1|5|10")) var priority: Int?
  @Option(help: .init("How long silence must last to mean acceptance (default: 5).", valueName: "seconds"))
  var settleQuiet: String?
  @Option(
    help: .init(
      "How the last notifications are settled: by a frame that must be refused, or by silence (default: probe).",
      valueName: "probe|quiet")) var confirm: LanePolicy.Confirm?
  @Option(
    help: .init(
      "What to do with notifications that may have arrived or not (default: resend).", valueName: "resend|hold|drop"))
  var onUnknown: LanePolicy.OnUnknown?
  @Option(
    help: .init(
      "How long to keep trying while the gateway takes nothing, 1s to 168h; then what is left is cancelled, or "
        + "stays in the journal (default: 15m).", valueName: "duration")) var patience: String?
  @OptionGroup var journalFlags: JournalFlags
  @Flag(help: "The account as one JSON object on standard output.") var json = false
  @Option(help: .init("Lists everything that was not accepted, as CSV (default: nowhere).", valueName: "file"))
  var outcomes: String?
  @Option(
    help: .init(
      "Appends the tokens of devices that no longer have the app, as CSV: timestamp,token (HTTP/2; default: "
        + "nowhere).", valueName: "file")) var gone: String?

  /// What flags alone can get wrong. Files are looked at by ``plan()``. Called first thing by
  /// run(), not by the parser: an unknown flag is to be named before a missing one.
  private func check() throws {
    try identity.check()
    try journalFlags.check()
    if journalFlags.resume { return try checkResume() }
    if campaign != nil {
      guard config != nil else { throw ValidationError("--campaign needs --config, which says how to reach its apps.") }
      let besides = [
        ("--app", app != nil), ("--payload", payload != nil), ("--tokens", tokens != nil),
        ("--expiration", expiration != nil), ("--priority", priority != nil),
      ]
      try Options.exclude(besides, "--campaign", because: "the campaign file says it")
      try provider.refuseAll(besides: "--campaign", because: "the campaign file and the configuration say it")
    } else {
      guard payload != nil else { throw ValidationError("--payload FILE must say what to send.") }
      guard tokens != nil || provider.channel != nil else {
        throw ValidationError("--tokens FILE must say to whom (- is standard input).")
      }
      if tokens != nil, provider.channel != nil {
        throw ValidationError("--tokens and --channel exclude each other: each says to whom.")
      }
      if provider.channel != nil, journalFlags.journal != nil {
        throw ValidationError(
          "--channel and --journal exclude each other: a broadcast is one request, with nothing to go on with.")
      }
    }
    try provider.checkRequestTimeout()
    if config != nil {
      try identity.refuse(besides: "--config")
      try provider.refuse(besides: "--config", because: "the configuration file says it")
      let besides = [
        ("--gateway", gateway != nil), ("--connections", connections != nil),
        ("--connections-per-minute", connectionsPerMinute != nil), ("--command", command != nil),
        ("--settle-quiet", settleQuiet != nil), ("--confirm", confirm != nil), ("--on-unknown", onUnknown != nil),
        ("--patience", patience != nil),
      ]
      try Options.exclude(besides, "--config", because: "the configuration file says it")
    } else {
      try provider.check(hasGateway: gateway != nil, hasCertificate: identity.certificate != nil)
      guard gateway != nil || provider.environment != nil else {
        let more = provider.isHTTP2 ? ", --environment production|sandbox" : ""
        throw ValidationError("--gateway HOST:PORT\(more) or --config FILE must say where to send to.")
      }
      if let gateway { _ = try Options.endpoint(gateway, flag: "--gateway") }
      guard identity.certificate != nil || provider.key.tokenKey != nil else {
        throw ValidationError("--certificate FILE\(provider.isHTTP2 ? " or --token-key FILE" : "") must say who sends.")
      }
      if provider.isHTTP2 {
        let binaryOnly = [
          ("--command", command != nil), ("--settle-quiet", settleQuiet != nil), ("--confirm", confirm != nil),
        ]
        for (flag, isGiven) in binaryOnly where isGiven {
          throw ValidationError(
            "\(flag) and --transport http2 exclude each other: it is about the binary protocol, "
              + "and every request over HTTP/2 is answered.")
        }
      } else if gone != nil {
        throw ValidationError(
          "--gone needs --transport http2: with the binary protocol, carillon feedback says which devices are gone.")
      }
    }
    if let connectionsPerMinute, !AppSettings.connectionsPerMinuteBounds.contains(connectionsPerMinute) {
      throw ValidationError("--connections-per-minute must be from 1 to 1000000, not \(connectionsPerMinute).")
    }
    if let connections, !(1...1000).contains(connections) {
      throw ValidationError("--connections must be from 1 to 1000, not \(connections).")
    }
    if let command { _ = try Options.command(command) }
    if let expiration, Expiration(expiration) == nil {
      throw ValidationError(
        "--expiration must be seconds from now, a duration such as 2h, a UNIX time, or 0, not \"\(expiration)\".")
    }
    let wanted = try Options.priority(priority)
    if config == nil, !provider.isHTTP2, wanted == 1 { throw ValidationError("--priority 1 needs --transport http2.") }
    if let patience {
      let duration = try Options.duration(patience, flag: "--patience")
      guard duration >= .seconds(1), duration <= .seconds(604_800) else {
        throw ValidationError("--patience must be from 1s to 168h, not \"\(patience)\".")
      }
    }
    if let settleQuiet {
      let quiet = try Options.duration(settleQuiet, flag: "--settle-quiet")
      guard quiet >= .milliseconds(10), quiet <= .seconds(3600) else {
        throw ValidationError("--settle-quiet must be from 10ms to 1h, not \"\(settleQuiet)\".")
      }
    }
  }

  func run() async throws {
    try check()
    let now = NIOLoop.wallClock
    if journalFlags.resume { return try await resume(at: now) }
    let plan = try plan()
    let prepared = try prepare(plan, at: now)
    if plan.journal != nil, let tokens = prepared.unrepeatableTokens {
      throw CommandFailure.usage(
        "\(tokens) cannot be read again after a crash, so it does not go with a journal: "
          + "save it to a regular file first")
    }
    let opened = try plan.journal.map { try SendJournal.open($0.settings, directory: $0.directory, skipsDamage: false) }
    opened?.showFindings()
    try opened?.checkIsFinished()
    try await send(plan, prepared, opened, at: now)
  }

  private func prepare(_ plan: SendPlan, at now: UInt32) throws -> PreparedSend {
    let prepared = try plan.prepare(at: now)
    for warning in prepared.warnings { StandardStream.error.writeLine("carillon: warning: \(warning.asSentence)") }
    return prepared
  }

  private func resume(at now: UInt32) async throws {
    let configuration = try config.map { file in try failing { try DeploymentConfiguration.read(file: file) } }
    guard let journal = journalPlan(configuration) else {
      throw ValidationError("--resume needs --journal DIR, or a configuration that names one.")
    }
    guard EngineJournal.exists(directory: journal.directory) else {
      throw CommandFailure.usage("There is no journal in \(journal.directory)")
    }
    let opened = try SendJournal.open(
      journal.settings, directory: journal.directory, skipsDamage: journalFlags.skipDamaged)
    opened.showFindings()
    guard
      let plan = try ResumePlan(
        opened: opened, onUnknown: onUnknown, configuration: configuration, configurationFile: config
      ).plan(journal: journal)
    else { return try await opened.finishWithoutCampaign(json: json) }
    try await send(plan, try prepare(plan, at: now), opened, at: now)
  }

  private func send(_ plan: SendPlan, _ prepared: PreparedSend, _ opened: SendJournal?, at now: UInt32) async throws {
    let run = SendExecution(plan: plan, prepared: prepared, opened: opened)
    try await SendShell(json: json, opened: opened).run(run, at: now)
  }

  /// Almost everything was said when the campaign began.
  private func checkResume() throws {
    try identity.refuse(besides: "--resume", because: "the journal remembers it")
    try provider.refuseAll(besides: "--resume", because: "the journal remembers it")
    let besides = [
      ("--app", app != nil), ("--campaign", campaign != nil), ("--gateway", gateway != nil),
      ("--payload", payload != nil), ("--tokens", tokens != nil), ("--connections", connections != nil),
      ("--connections-per-minute", connectionsPerMinute != nil), ("--command", command != nil),
      ("--expiration", expiration != nil), ("--priority", priority != nil), ("--settle-quiet", settleQuiet != nil),
      ("--confirm", confirm != nil), ("--outcomes", outcomes != nil), ("--gone", gone != nil),
      ("--patience", patience != nil),
    ]
    try Options.exclude(besides, "--resume", because: "the journal remembers it")
    if config == nil, journalFlags.journal == nil {
      throw ValidationError("--resume needs --journal DIR, which says what to go on with.")
    }
  }

  /// The flags come before the configuration.
  private func journalPlan(_ configuration: DeploymentConfiguration?) -> SendPlan.JournalPlan? {
    guard let directory = journalFlags.journal ?? configuration?.journal.directory else { return nil }
    var settings = configuration?.journal ?? JournalConfiguration()
    if let sync = journalFlags.sync { settings.sync = sync }
    return SendPlan.JournalPlan(directory: directory, settings: settings)
  }

  /// Reads the configuration, the campaign and the payloads.
  func plan() throws -> SendPlan {
    var plan = try config == nil ? planOfFlags() : planOfConfiguration()
    plan.outcomes = outcomes
    plan.gone = gone
    if provider.channel != nil {
      // A configuration may name a journal.
      plan.journal = nil
      return plan
    }
    if plan.journal == nil { plan.journal = journalPlan(nil) }
    if journalFlags.sync != nil, plan.journal == nil { throw ValidationError("--sync needs --journal DIR.") }
    if plan.journal != nil, plan.entries.contains(where: { $0.tokens == "-" }) {
      throw ValidationError(
        "--tokens - and --journal exclude each other: standard input cannot be read again; save it to a file first.")
    }
    if plan.journal != nil, outcomes != nil, let twice = plan.entryThatIsThereTwice {
      throw CommandFailure.usage(
        "Two entries of \(campaign ?? "the campaign") send to \(twice.tokens) through \(twice.app), so --outcomes "
          + "could not tell them apart when the journal is "
          + "gone on with: name a copy of the file in one of them, or send them one after the other.")
    }
    return plan
  }

  private func planOfFlags() throws -> SendPlan {
    let credential = provider.key.file.map(AppCredential.tokenKey) ?? identity.files.map(AppCredential.certificate)
    guard let credential, let payload else {
      throw CommandFailure.usage("--certificate, --payload and --tokens are needed")
    }
    var settings = AppSettings(id: app ?? "app", credential: credential)
    try provider.apply(to: &settings)
    settings.gateway = gateway.flatMap(Endpoint.init)
    settings.trust = identity.trust
    if let connections { settings.connections = connections...connections }
    settings.connectionsPerMinute = connectionsPerMinute
    if let command { settings.command = try Options.command(command) }
    if let settleQuiet { settings.settle.quiet = try Options.duration(settleQuiet, flag: "--settle-quiet") }
    if let confirm { settings.settle.confirm = confirm }
    if let onUnknown { settings.onUnknown = onUnknown }
    if let patience { settings.patience = try Options.duration(patience, flag: "--patience") }
    return SendPlan(apps: [settings], entries: [try entry(settings.id, payload, tokens)], isNamedByTopic: app == nil)
  }

  private func planOfConfiguration() throws -> SendPlan {
    let config = config ?? ""
    let configuration = try failing { try DeploymentConfiguration.read(file: config) }
    guard let campaign else {
      guard let payload else { throw CommandFailure.usage("--payload and --tokens are needed") }
      let settings = try configuration.app(app, file: config)
      return SendPlan(
        apps: [settings], entries: [try entry(settings.id, payload, tokens)], journal: journalPlan(configuration))
    }
    let listed = try failing { try CampaignEntry.read(file: campaign, apps: configuration.apps.map(\.id)) }
    let entries = try listed.map {
      SendPlan.Entry(
        app: $0.app, payloadFile: $0.payload, template: try PayloadTemplate.read(file: $0.payload), tokens: $0.tokens,
        expiration: $0.expiration, priority: $0.priority,
        overrides: HeaderOverrides(pushType: $0.pushType, collapseIdentifier: $0.collapseIdentifier))
    }
    let used = Set(listed.map(\.app))
    return SendPlan(
      apps: configuration.apps.filter { used.contains($0.id) }, entries: entries, journal: journalPlan(configuration))
  }

  private func entry(_ app: String, _ payload: String, _ tokens: String?) throws -> SendPlan.Entry {
    SendPlan.Entry(
      app: app, payloadFile: payload, template: try PayloadTemplate.read(file: payload), tokens: tokens ?? "",
      expiration: expiration.flatMap(Expiration.init), priority: try Options.priority(priority),
      overrides: provider.overrides)
  }
}

extension LanePolicy.Confirm: ExpressibleByArgument {}
extension LanePolicy.OnUnknown: ExpressibleByArgument {}
