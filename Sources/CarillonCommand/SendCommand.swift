internal import ArgumentParser
internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushServer
internal import PushTransport
internal import PushWire

struct SendCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "send", abstract: "Sends a payload to every token of a file, and accounts for each notification.",
    discussion: """
      A token file has one token per line, or is CSV with a column "token" in its header. The other columns fill \
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

      Over HTTP/2 each notification has an apns-id, which stays the same when it is sent again, and each request \
      has an answer. The columns "apns-id" and "collapse-id" of a token file set these headers for single \
      notifications; an empty field uses the campaign's. --gone lists the devices that no longer have the app, as \
      carillon feedback does for the binary protocol.

      With --journal DIR a campaign survives a kill, an interrupt and a full disk. This command resumes it:

        carillon send --resume --journal DIR

      It sends the notifications that were certainly not sent, and treats those that may have arrived as \
      --on-unknown says. The account and the list of outcomes cover the whole campaign. The journal stores the \
      settings, so --resume takes only --journal, --on-unknown, --sync, --skip-damaged, --json, and --config for \
      apps whose settings have changed. The payload and token files must not have changed.

      The first SIGINT (Ctrl-C), SIGTERM or SIGHUP stops reading tokens, and waits for the notifications in \
      flight. A second SIGINT or SIGTERM closes every connection: notifications in flight become unknown.
      Exit status: 0 all accepted, 1 some were not (the account shows why), 2 wrong flags or files (nothing was \
      sent), 3 it could not run, or the account could not be written to standard output (then it is on standard \
      error).
      """)

  @Option(help: .init("A configuration file with one or more apps.", valueName: "file")) var config: String?
  @Option(
    help: .init(
      "The app to send through (default with --config: the only one; otherwise the certificate's topic).",
      valueName: "id")) var app: String?
  @Option(help: .init("A YAML list of payloads, token files and apps; needs --config.", valueName: "file"))
  var campaign: String?
  @Option(help: .init("The gateway, without a configuration file.", valueName: "host:port")) var gateway: String?
  @OptionGroup var provider: ProviderFlags
  @OptionGroup var identity: IdentityOptions
  @Option(help: .init("The payload, a JSON file.", valueName: "file")) var payload: String?
  @Option(help: .init("The token file; - is standard input.", valueName: "file")) var tokens: String?
  @Option(
    help: .init("Connections to the gateway, 1 to 1000 (default: 1, up to 8 under load).", valueName: "n")
  ) var connections: Int?
  @Option(
    help: .init(
      "New connections per minute, in total (default: 3000 to Apple's hosts, 60000 to others).", valueName: "n"))
  var connectionsPerMinute: Int?
  @Option(help: .init("The frame version of the binary protocol (default: 2).", valueName: "0|1|2")) var command: Int?
  @Option(
    help: .init(
      "When the notification expires: seconds from now, a duration such as 2h, a UNIX time, or 0 to deliver at once "
        + "or never (default: none).", valueName: "seconds")) var expiration: String?
  @Option(
    name: [.long, .customLong("apns-priority")],
    help: .init(
      "10: at once; 5: when it saves power; 1, over HTTP/2: never wakes the device (default: none).",
      valueName: "1|5|10")) var priority: Int?
  @Option(
    help: .init("The quiet period after which notifications count as accepted (default: 5).", valueName: "seconds"))
  var settleQuiet: String?
  @Option(
    help: .init(
      "How the last notifications are settled: by a probe, a frame that the gateway must refuse, or after a quiet "
        + "period (default: probe).",
      valueName: "probe|quiet")) var confirm: LanePolicy.Confirm?
  @Option(
    help: .init(
      "What to do with notifications that may or may not have arrived (default: resend).", valueName: "resend|hold|drop"
    ))
  var onUnknown: LanePolicy.OnUnknown?
  @Option(
    help: .init(
      "How long to retry while the gateway accepts nothing, 1s to 168h; then the rest is cancelled, or stays in the "
        + "journal (default: 15m).", valueName: "duration")) var patience: String?
  @OptionGroup var journalFlags: JournalFlags
  @Flag(help: "Prints the account as one JSON object on standard output.") var json = false
  @Option(help: .init("Lists every notification that was not accepted, as CSV (default: no list).", valueName: "file"))
  var outcomes: String?
  @Option(
    help: .init(
      "Appends the tokens of devices that no longer have the app, as CSV: timestamp,token (HTTP/2; default: no "
        + "list).", valueName: "file")) var gone: String?

  /// Flags for the app and its gateway. A configuration file sets the same.
  private var aboutApp: [(String, Bool)] {
    [
      ("--gateway", gateway != nil), ("--connections", connections != nil),
      ("--connections-per-minute", connectionsPerMinute != nil), ("--command", command != nil),
      ("--settle-quiet", settleQuiet != nil), ("--confirm", confirm != nil), ("--patience", patience != nil),
    ]
  }

  /// Flags for what is sent. A campaign file sets the same.
  private var aboutCampaign: [(String, Bool)] {
    [
      ("--app", app != nil), ("--payload", payload != nil), ("--tokens", tokens != nil),
      ("--expiration", expiration != nil), ("--priority", priority != nil),
    ]
  }

  /// Checks the flags; ``plan()`` reads the files. Called by run() and not by the parser, so that
  /// an unknown flag is reported before a missing one.
  private func check() throws {
    try identity.check()
    try journalFlags.check()
    if journalFlags.resume { return try checkResume() }
    if campaign == nil { try checkPayloadAndTokens() } else { try checkCampaignFile() }
    if config == nil { try checkWithoutConfiguration() } else { try checkConfiguration() }
    try checkValues()
  }

  private func checkCampaignFile() throws {
    guard config != nil else { throw ValidationError("--campaign needs --config, which has the settings of its apps.") }
    try Options.exclude(aboutCampaign, "--campaign", because: "the campaign file sets it")
    try provider.refuseAll(besides: "--campaign", because: "the campaign file and the configuration set it")
  }

  private func checkPayloadAndTokens() throws {
    guard payload != nil else { throw ValidationError("The payload is missing: --payload FILE.") }
    guard provider.channel != nil else {
      guard tokens != nil else { throw ValidationError("The tokens are missing: --tokens FILE (- is standard input).") }
      return
    }
    try Options.exclude([("--tokens", tokens != nil)], "--channel", because: "a broadcast has no tokens")
    try Options.exclude(
      [("--journal", journalFlags.journal != nil)], "--channel",
      because: "a broadcast is one request, which cannot be resumed")
  }

  private func checkConfiguration() throws {
    let reason = "the configuration file sets it"
    try identity.refuse(besides: "--config")
    try provider.refuse(besides: "--config", because: reason)
    try Options.exclude(aboutApp + [("--on-unknown", onUnknown != nil)], "--config", because: reason)
  }

  private func checkWithoutConfiguration() throws {
    try provider.check(hasGateway: gateway != nil, hasCertificate: identity.certificate != nil)
    guard gateway != nil || provider.environment != nil else {
      let more = provider.isHTTP2 ? ", --environment production|sandbox" : ""
      throw ValidationError("The gateway is missing: --gateway HOST:PORT\(more) or --config FILE.")
    }
    if let gateway { _ = try Options.endpoint(gateway, flag: "--gateway") }
    guard identity.certificate != nil || provider.key.isGiven else {
      let more = provider.isHTTP2 ? " or --token-key FILE" : ""
      throw ValidationError("A credential is missing: --certificate FILE\(more).")
    }
    if provider.isHTTP2 {
      let binaryOnly = [
        ("--command", command != nil), ("--settle-quiet", settleQuiet != nil), ("--confirm", confirm != nil),
      ]
      try Options.exclude(binaryOnly, "--transport http2", because: "it is for the binary protocol")
    } else {
      try Options.require(
        "--transport http2", for: [("--gone", gone != nil)],
        because: "; for the binary protocol, carillon feedback lists gone devices")
      let isLow = try Options.priority(priority) == PushPriority.low.rawValue
      try Options.require("--transport http2", for: [("--priority 1", isLow)])
    }
  }

  private func checkValues() throws {
    _ = try provider.requestTimeoutDuration()
    try Options.check(
      connectionsPerMinute, flag: "--connections-per-minute", in: AppSettings.Bounds.connectionsPerMinute)
    try Options.check(connections, flag: "--connections", in: AppSettings.Bounds.connections)
    if let command { _ = try Options.command(command) }
    if let expiration, PushNotification.Expiration(parsing: expiration) == nil {
      throw ValidationError(
        "--expiration must be seconds from now, a duration such as 2h, a UNIX time, or 0, not \"\(expiration)\".")
    }
    _ = try Options.priority(priority)
    _ = try durations()
  }

  /// The durations of `--patience` and `--settle-quiet`.
  private func durations() throws -> (patience: Duration?, quiet: Duration?) {
    (
      try patience.map { try Options.duration($0, flag: "--patience", in: AppSettings.Bounds.patience) },
      try settleQuiet.map { try Options.duration($0, flag: "--settle-quiet", in: AppSettings.Bounds.quiet) }
    )
  }

  /// The journal has almost all settings of the campaign.
  private func checkResume() throws {
    let reason = "the journal stores it"
    try identity.refuse(besides: "--resume", because: reason)
    try provider.refuseAll(besides: "--resume", because: reason)
    let others = [("--campaign", campaign != nil), ("--outcomes", outcomes != nil), ("--gone", gone != nil)]
    try Options.exclude(aboutApp + aboutCampaign + others, "--resume", because: reason)
    if config == nil, journalFlags.journal == nil {
      throw ValidationError("--resume needs --journal DIR, or a configuration that names one.")
    }
  }

  // MARK: Running

  func run() async throws {
    try check()
    let now = NIOLoop.wallClock
    if journalFlags.resume { return try await resume(at: now) }
    let plan = try plan()
    let prepared = try prepare(plan, at: now)
    if plan.journal != nil { try prepared.checkIsResumable() }
    let opened = try plan.journal.map {
      try SendJournal.openReporting($0.settings, directory: $0.directory, skipsDamage: false)
    }
    try opened?.checkHasEnded()
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
    try JournalDirectory.check(journal.directory)
    let opened = try SendJournal.openReporting(
      journal.settings, directory: journal.directory, skipsDamage: journalFlags.skipDamaged)
    guard let plan = try resumePlan(opened, journal, configuration) else {
      return try await opened.finishWithoutCampaign(json: json)
    }
    try await send(plan, try prepare(plan, at: now), opened, at: now)
  }

  /// Nil when there is nothing to resume.
  private func resumePlan(
    _ opened: SendJournal, _ journal: SendPlan.JournalPlan, _ configuration: DeploymentConfiguration?
  ) throws -> SendPlan? {
    let plan = ResumePlan(
      opened: opened, onUnknown: onUnknown, configuration: configuration, configurationFile: config)
    do { return try plan.plan(journal: journal) } catch let error as CarillonError where error.code == .journalContent {
      throw CommandFailure(error, advice: "restore what has changed, or abandon it with \(opened.abandonCommand)")
    } catch let error as CarillonError where error.code == .configuration {
      throw CommandFailure(error, flag: "--config")
    }
  }

  private func send(_ plan: SendPlan, _ prepared: PreparedSend, _ opened: SendJournal?, at now: UInt32) async throws {
    let run = SendExecution(plan: plan, prepared: prepared, opened: opened)
    try await SendTerminal(json: json, opened: opened).run(run, at: now)
  }

  // MARK: The plan

  /// The flags override the configuration.
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
      // A broadcast needs no journal, even if the configuration names one.
      plan.journal = nil
      return plan
    }
    if plan.journal == nil { plan.journal = journalPlan(nil) }
    guard plan.journal != nil else {
      try Options.require("--journal DIR", for: [("--sync", journalFlags.sync != nil)])
      return plan
    }
    try plan.checkIsResumable(name: campaign ?? "the campaign")
    return plan
  }

  private func planOfFlags() throws -> SendPlan {
    let credential = provider.key.file.map(AppCredential.tokenKey) ?? identity.files.map(AppCredential.certificate)
    guard let credential, let payload else {
      throw CommandFailure.usage("The credential or the payload is missing: --certificate FILE, --payload FILE")
    }
    var settings = AppSettings(id: app ?? "app", credential: credential)
    try provider.apply(to: &settings)
    settings.gateway = gateway.flatMap(Endpoint.init)
    settings.trust = identity.trust
    if let connections { settings.connections = connections...connections }
    settings.connectionsPerMinute = connectionsPerMinute
    if let command { settings.command = try Options.command(command) }
    let durations = try durations()
    if let quiet = durations.quiet { settings.settle.quiet = quiet }
    if let confirm { settings.settle.confirm = confirm }
    if let onUnknown { settings.onUnknown = onUnknown }
    if let patience = durations.patience { settings.patience = patience }
    return SendPlan(apps: [settings], entries: [try entry(settings.id, payload, tokens)], isNamedByTopic: app == nil)
  }

  private func planOfConfiguration() throws -> SendPlan {
    let config = config ?? ""
    let configuration = try failing { try DeploymentConfiguration.read(file: config) }
    let journal = journalPlan(configuration)
    if let campaign { return try SendPlan.read(campaign: campaign, configuration: configuration, journal: journal) }
    let settings = try failing(flag: "--app") { try configuration.app(app, file: config) }
    return SendPlan(apps: [settings], entries: [try entry(settings.id, payload ?? "", tokens)], journal: journal)
  }

  private func entry(_ app: String, _ payload: String, _ tokens: String?) throws -> SendPlan.Entry {
    SendPlan.Entry(
      app: app, payloadFile: payload, template: try PayloadTemplate.read(file: payload), tokens: tokens ?? "",
      expiration: expiration.flatMap(PushNotification.Expiration.init(parsing:)),
      priority: try Options.priority(priority),
      overrides: provider.overrides)
  }
}

extension LanePolicy.Confirm: ExpressibleByArgument {}
extension LanePolicy.OnUnknown: ExpressibleByArgument {}
