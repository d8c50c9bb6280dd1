internal import ArgumentParser
internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushSend
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

  @OptionGroup(title: "What is sent") var content: ContentFlags
  @OptionGroup(title: "The gateway") var gateway: GatewayFlags
  @OptionGroup(title: "The gateway") var way: ProxyOptions
  @OptionGroup(title: "The credential") var identity: IdentityOptions
  @OptionGroup(title: "The credential") var key: TokenKeyOptions
  @OptionGroup(title: "The binary protocol") var binary: BinaryFlags
  @OptionGroup(title: "The journal") var journalFlags: JournalFlags
  @OptionGroup(title: "Results") var results: ResultFlags

  private static let setByFile = "the configuration file sets it"

  /// Checks the flags; ``plan()`` reads the files. Called by run() and not by the parser, so that
  /// an unknown flag is reported before a missing one.
  private func check() throws {
    try identity.check()
    try way.check()
    try journalFlags.check()
    if journalFlags.resume { return try checkResume() }
    if content.campaign == nil { try checkContent() } else { try checkCampaignFile() }
    if gateway.config == nil { try checkWithoutConfiguration() } else { try checkConfiguration() }
    try content.checkValues()
    try gateway.checkValues()
    try binary.checkValues()
  }

  /// Flags for the app and its gateway.
  private var aboutApp: [(String, Bool)] { gateway.given + way.given + key.given + binary.given }

  private func checkCampaignFile() throws {
    guard gateway.config != nil else {
      throw ValidationError("--campaign needs --config, which has the settings of its apps.")
    }
    try Options.exclude(content.campaignFlags, "--campaign", because: "the campaign file sets it")
    try Options.exclude(content.providerFlags, "--campaign", because: "the campaign file and the configuration set it")
  }

  private func checkContent() throws {
    try content.check()
    guard content.channel != nil else { return }
    try Options.exclude(
      [("--journal", journalFlags.journal != nil)], "--channel",
      because: "a broadcast is one request, which cannot be resumed")
  }

  private func checkConfiguration() throws {
    try identity.refuse(besides: "--config")
    let flags = aboutApp + [("--on-unknown", gateway.onUnknown != nil)]
    try Options.exclude(flags, "--config", because: Self.setByFile)
  }

  private func checkWithoutConfiguration() throws {
    let isHTTP2 = gateway.isHTTP2
    if isHTTP2 {
      if gateway.environment != nil {
        try Options.exclude([("--gateway", gateway.gateway != nil)], "--environment", because: "each selects a gateway")
      }
      try key.check(hasCertificate: identity.certificate != nil, hasTopic: content.topic != nil)
    } else {
      try Options.require("--transport http2", for: gateway.providerFlags + key.given + content.providerFlags)
    }
    guard gateway.gateway != nil || gateway.environment != nil else {
      let more = isHTTP2 ? ", --environment production|sandbox" : ""
      throw ValidationError("The gateway is missing: --gateway HOST:PORT\(more) or --config FILE.")
    }
    if let gateway = gateway.gateway { _ = try Options.endpoint(gateway, flag: "--gateway") }
    guard identity.certificate != nil || key.isGiven else {
      let more = isHTTP2 ? " or --token-key FILE" : ""
      throw ValidationError("A credential is missing: --certificate FILE\(more).")
    }
    if isHTTP2 {
      try Options.exclude(binary.given, "--transport http2", because: "it is for the binary protocol")
    } else {
      try Options.require(
        "--transport http2", for: [("--gone", results.gone != nil)],
        because: "; for the binary protocol, carillon feedback lists gone devices")
      let isLow = try Options.priority(content.priority) == PushPriority.low.rawValue
      try Options.require("--transport http2", for: [("--priority 1", isLow)])
    }
  }

  /// The journal has almost all settings of the campaign.
  private func checkResume() throws {
    let reason = "the journal stores it"
    try identity.refuse(besides: "--resume", because: reason)
    let others = [
      ("--campaign", content.campaign != nil), ("--outcomes", results.outcomes != nil), ("--gone", results.gone != nil),
    ]
    try Options.exclude(aboutApp + content.campaignFlags + content.providerFlags + others, "--resume", because: reason)
    if gateway.config == nil, journalFlags.journal == nil {
      throw ValidationError("--resume needs --journal DIR, or a configuration that names one.")
    }
  }

  // MARK: Running

  func run() async throws {
    try check()
    let now = NIOLoop.wallClock
    if journalFlags.resume { return try await resume(at: now) }
    let plan = try plan()
    let send = try checked(plan, at: now)
    if plan.journal != nil { try send.checkIsResumable() }
    let opened = try plan.journal.map {
      try SendJournal.openReporting($0.settings, directory: $0.directory, skipsDamage: false)
    }
    try opened?.checkHasEnded()
    try await SendTerminal(json: results.json, opened: opened).run(send, at: now)
  }

  private func checked(_ plan: SendPlan, at now: UInt32) throws -> Send {
    let send = try Send(plan, at: now)
    for warning in send.warnings { StandardStream.error.writeLine("carillon: warning: \(warning.asSentence)") }
    return send
  }

  private func resume(at now: UInt32) async throws {
    let configuration = try gateway.config.map { file in try failing { try DeploymentConfiguration.read(file: file) } }
    guard let journal = journalPlan(configuration) else {
      throw ValidationError("--resume needs --journal DIR, or a configuration that names one.")
    }
    try JournalDirectory.check(journal.directory)
    let opened = try SendJournal.openReporting(
      journal.settings, directory: journal.directory, skipsDamage: journalFlags.skipDamaged)
    guard let plan = try resumePlan(opened, journal, configuration) else {
      return try await opened.finishWithoutCampaign(json: results.json)
    }
    try await SendTerminal(json: results.json, opened: opened).run(try checked(plan, at: now), at: now)
  }

  /// Nil when there is nothing to resume.
  private func resumePlan(
    _ opened: SendJournal, _ journal: SendPlan.JournalPlan, _ configuration: DeploymentConfiguration?
  ) throws -> SendPlan? {
    do {
      return try SendPlan.resuming(
        opened, journal: journal, onUnknown: gateway.onUnknown, configuration: configuration,
        configurationFile: gateway.config)
    } catch let error as CarillonError where error.code == .journalContent {
      throw CommandFailure(error, advice: "restore what has changed, or abandon it with \(opened.abandonCommand)")
    } catch let error as CarillonError where error.code == .configuration {
      throw CommandFailure(error, flag: "--config")
    }
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
    var plan = try gateway.config == nil ? planOfFlags() : planOfConfiguration()
    plan.outcomes = results.outcomes
    plan.gone = results.gone
    if content.channel != nil {
      // A broadcast needs no journal, even if the configuration names one.
      plan.journal = nil
      return plan
    }
    if plan.journal == nil { plan.journal = journalPlan(nil) }
    guard plan.journal != nil else {
      try Options.require("--journal DIR", for: [("--sync", journalFlags.sync != nil)])
      return plan
    }
    try plan.checkIsResumable(name: content.campaign ?? "the campaign")
    return plan
  }

  private func planOfFlags() throws -> SendPlan {
    let credential = key.file.map(AppCredential.tokenKey) ?? identity.files.map(AppCredential.certificate)
    guard let credential, let payload = content.payload else {
      throw CommandFailure.usage("The credential or the payload is missing: --certificate FILE, --payload FILE")
    }
    var app = AppConfiguration(
      id: content.app ?? "app", topic: content.topic, transport: .binary(),
      credential: AppConfiguration.Credential(credential))
    try gateway.apply(to: &app)
    try binary.apply(to: &app)
    app.trustedAuthorities = identity.trust
    app.proxy = try way.proxyOfFlags()
    return SendPlan(
      apps: [app], entries: [try entry(app.id, payload, content.tokens)], isNamedByTopic: content.app == nil)
  }

  private func planOfConfiguration() throws -> SendPlan {
    let config = gateway.config ?? ""
    let configuration = try failing { try DeploymentConfiguration.read(file: config) }
    let journal = journalPlan(configuration)
    if let campaign = content.campaign {
      return try SendPlan.read(campaign: campaign, configuration: configuration, journal: journal)
    }
    let app = try failing(flag: "--app") { try configuration.app(content.app, file: config) }
    return SendPlan(apps: [app], entries: [try entry(app.id, content.payload ?? "", content.tokens)], journal: journal)
  }

  private func entry(_ app: String, _ payload: String, _ tokens: String?) throws -> SendPlan.Entry {
    var entry = try SendPlan.Entry(app: app, payloadFile: payload, tokens: tokens ?? "")
    try content.apply(to: &entry.notification)
    return entry
  }
}
