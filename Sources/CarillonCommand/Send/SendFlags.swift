internal import ArgumentParser
internal import Carillon
internal import PushEngine
internal import PushWire

/// The flags of `send` for what is sent, and to whom.
struct ContentFlags: ParsableArguments {
  @Option(help: .init("The payload, a JSON file.", valueName: "file")) var payload: String?
  @Option(help: .init("The token file; - is standard input.", valueName: "file")) var tokens: String?
  @Option(help: .init("A YAML list of payloads, token files and apps; needs --config.", valueName: "file"))
  var campaign: String?
  @Option(
    help: .init(
      "The app to send through (default with --config: the only one; otherwise the certificate's topic).",
      valueName: "id")) var app: String?
  @Option(
    help: .init(
      "The app's bundle identifier; the suffix of the push type is added (default: the certificate's; needed with "
        + "--token-key).", valueName: "bundle")) var topic: String?
  @Option(
    help: .init(
      "The type of the notification (default: the configuration's, otherwise alert; for a channel liveactivity).",
      valueName: "type")) var pushType: PushType?
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
    help: .init(
      "Notifications with the same identifier replace each other on a device, 1 to 64 characters; a column "
        + "\"collapse-id\" of the token file overrides it (default: none).", valueName: "id")) var collapseID: String?
  @Option(
    help: .init(
      "Sends one broadcast to this Live Activities channel, in place of --tokens; needs --expiration.",
      valueName: "id")) var channel: String?

  /// Flags that HTTP/2 alone has.
  var providerFlags: [(String, Bool)] {
    [
      ("--topic", topic != nil), ("--push-type", pushType != nil), ("--collapse-id", collapseID != nil),
      ("--channel", channel != nil),
    ]
  }

  /// What a campaign file sets as well.
  var campaignFlags: [(String, Bool)] {
    [
      ("--app", app != nil), ("--payload", payload != nil), ("--tokens", tokens != nil),
      ("--expiration", expiration != nil), ("--priority", priority != nil),
    ]
  }

  func check() throws {
    guard payload != nil else { throw ValidationError("The payload is missing: --payload FILE.") }
    guard channel == nil else {
      return try Options.exclude([("--tokens", tokens != nil)], "--channel", because: "a broadcast has no tokens")
    }
    guard tokens != nil else { throw ValidationError("The tokens are missing: --tokens FILE (- is standard input).") }
  }

  func checkValues() throws {
    if let expiration, PushNotification.Expiration(parsing: expiration) == nil {
      throw ValidationError(
        "--expiration must be seconds from now, a duration such as 2h, a UNIX time, or 0, not \"\(expiration)\".")
    }
    _ = try Options.priority(priority)
  }

  func apply(to notification: inout PushNotification) throws {
    notification.expiration = expiration.flatMap(PushNotification.Expiration.init(parsing:))
    notification.priority = try Options.priority(priority).flatMap(PushNotification.Priority.init(rawValue:))
    notification.topic = topic
    notification.pushType = pushType.map(PushNotification.PushType.init(wire:))
    notification.collapseID = collapseID
    notification.channel = channel
  }
}

/// The flags of `send` for the app's gateway. A configuration file sets the same.
struct GatewayFlags: ParsableArguments {
  @Option(help: .init("A configuration file with one or more apps.", valueName: "file")) var config: String?
  @Option(help: .init("The gateway, without a configuration file.", valueName: "host:port")) var gateway: String?
  @Option(
    help: .init(
      "The gateway's protocol: Apple's HTTP/2 provider API, or the binary protocol of private gateways and "
        + "simulators (default: binary).", valueName: "binary|http2")) var transport: AppConfiguration.Transport.Name?
  @Option(
    help: .init(
      "Apple's gateway of this environment, with --transport http2 and no --gateway.",
      valueName: "production|sandbox")) var environment: PushEnvironment?
  @Option(
    help: .init("Connections to the gateway, 1 to 1000 (default: 1, up to 8 under load).", valueName: "n")
  ) var connections: Int?
  @Option(
    help: .init(
      "New connections per minute, in total (default: 3000 to Apple's hosts, 60000 to others).", valueName: "n"))
  var connectionsPerMinute: Int?
  @Option(
    help: .init("The most notifications, such as 5000/s or 300/m (default: as many as can be).", valueName: "rate"))
  var rateLimit: String?
  @Option(
    help: .init(
      "How long to wait for an answer until the notification becomes unknown (default: 30).", valueName: "seconds"))
  var requestTimeout: String?
  @Option(
    help: .init(
      "How long to retry while the gateway accepts nothing, 1s to 168h; then the rest is cancelled, or stays in the "
        + "journal (default: 15m).", valueName: "duration")) var patience: String?
  @Option(
    help: .init(
      "How long a notification may wait to be sent, 1s to 720h; then it has expired (default: 720h).",
      valueName: "duration")) var maxAge: String?
  @Option(
    help: .init(
      "What to do with notifications that may or may not have arrived (default: resend).", valueName: "resend|hold|drop"
    ))
  var onUnknown: LanePolicy.OnUnknown?

  var isHTTP2: Bool { transport == .http2 }

  var providerFlags: [(String, Bool)] {
    [("--environment", environment != nil), ("--request-timeout", requestTimeout != nil)]
  }

  /// All but `--config` and `--on-unknown`.
  var given: [(String, Bool)] {
    [
      ("--gateway", gateway != nil), ("--transport", transport != nil), ("--connections", connections != nil),
      ("--connections-per-minute", connectionsPerMinute != nil), ("--rate-limit", rateLimit != nil),
      ("--patience", patience != nil), ("--max-age", maxAge != nil),
    ] + providerFlags
  }

  func checkValues() throws {
    try Options.check(
      connectionsPerMinute, flag: "--connections-per-minute", in: AppSetting.Bounds.connectionsPerMinute)
    try Options.check(connections, flag: "--connections", in: AppSetting.Bounds.connections)
    _ = try rate()
    _ = try durations()
  }

  private func rate() throws -> Double? { try rateLimit.map { try Options.rate($0, flag: "--rate-limit") } }

  private func durations() throws -> (timeout: Duration?, patience: Duration?, maxAge: Duration?) {
    (
      try requestTimeout.map {
        try Options.duration($0, flag: "--request-timeout", in: AppSetting.Bounds.requestTimeout)
      }, try patience.map { try Options.duration($0, flag: "--patience", in: AppSetting.Bounds.patience) },
      try maxAge.map { try Options.duration($0, flag: "--max-age", in: AppSetting.Bounds.maxAge) }
    )
  }

  func apply(to app: inout AppConfiguration) throws {
    if let transport { app.transport = AppConfiguration.Transport(transport) }
    if let environment { app.environment = environment }
    app.gateway = gateway.flatMap { Endpoint($0) }.map(AppConfiguration.Gateway.init)
    if let connections { app.connections = connections...connections }
    app.connectionsPerMinute = connectionsPerMinute
    if let rate = try rate() { app.rateLimit = rate }
    let durations = try durations()
    if let timeout = durations.timeout { app.http2.requestTimeout = timeout }
    if let patience = durations.patience { app.patience = patience }
    if let maxAge = durations.maxAge { app.maxAge = maxAge }
    if let onUnknown { app.onUnknown = AppConfiguration.UnknownPolicy(wire: onUnknown) }
  }
}

/// The flags of `send` for the binary protocol.
struct BinaryFlags: ParsableArguments {
  @Option(help: .init("The frame version of the binary protocol (default: 2).", valueName: "0|1|2")) var command: Int?
  @Option(
    help: .init("The quiet period after which notifications count as accepted (default: 5).", valueName: "seconds"))
  var settleQuiet: String?
  @Option(
    help: .init(
      "How the last notifications are settled: by a probe, a frame that the gateway must refuse, or after a quiet "
        + "period (default: probe).",
      valueName: "probe|quiet")) var confirm: LanePolicy.Confirm?

  var given: [(String, Bool)] {
    [("--command", command != nil), ("--settle-quiet", settleQuiet != nil), ("--confirm", confirm != nil)]
  }

  func checkValues() throws {
    if let command { _ = try Options.command(command) }
    _ = try quiet()
  }

  private func quiet() throws -> Duration? {
    try settleQuiet.map { try Options.duration($0, flag: "--settle-quiet", in: AppSetting.Bounds.quiet) }
  }

  func apply(to app: inout AppConfiguration) throws {
    if let command { app.command = try Options.command(command) }
    if let quiet = try quiet() { app.settling.quiet = quiet }
    if let confirm { app.confirm = confirm }
  }
}

/// The flags of `send` for what it reports.
struct ResultFlags: ParsableArguments {
  @Flag(help: "Prints the account as one JSON object on standard output.") var json = false
  @Option(help: .init("Lists every notification that was not accepted, as CSV (default: no list).", valueName: "file"))
  var outcomes: String?
  @Option(
    help: .init(
      "Appends the tokens of devices that no longer have the app, as CSV: timestamp,token (HTTP/2; default: no "
        + "list).", valueName: "file")) var gone: String?
}

extension AppConfiguration.Transport.Name: ExpressibleByArgument {}
extension PushEnvironment: ExpressibleByArgument {}
extension PushType: ExpressibleByArgument {}
extension LanePolicy.Confirm: ExpressibleByArgument {}
extension LanePolicy.OnUnknown: ExpressibleByArgument {}
