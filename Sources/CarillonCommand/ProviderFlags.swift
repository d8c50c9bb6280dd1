internal import ArgumentParser
internal import Carillon
internal import PushWire

/// The flags of `send` for HTTP/2.
struct ProviderFlags: ParsableArguments {
  @Option(
    help: .init(
      "The gateway's protocol: Apple's HTTP/2 provider API, or the binary protocol of private gateways and "
        + "simulators (default: binary).", valueName: "binary|http2")) var transport: AppSettings.Transport?
  @Option(
    help: .init(
      "Apple's gateway of this environment, with --transport http2 and no --gateway.",
      valueName: "production|sandbox")) var environment: PushEnvironment?
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
      "Notifications with the same identifier replace each other on a device, 1 to 64 characters; a column "
        + "\"collapse-id\" of the token file overrides it (default: none).", valueName: "id")) var collapseID: String?
  @OptionGroup var key: TokenKeyOptions
  @Option(
    help: .init(
      "How long to wait for an answer until the notification becomes unknown (default: 30).", valueName: "seconds"))
  var requestTimeout: String?
  @Option(
    help: .init(
      "Sends one broadcast to this Live Activities channel, in place of --tokens; needs --expiration.",
      valueName: "id")) var channel: String?

  /// Flags for the gateway. A configuration file sets the same.
  private var aboutApp: [(String, Bool)] {
    [
      ("--transport", transport != nil), ("--environment", environment != nil),
      ("--request-timeout", requestTimeout != nil),
    ] + key.given
  }

  /// Flags for what is sent.
  private var aboutCampaign: [(String, Bool)] {
    [
      ("--topic", topic != nil), ("--push-type", pushType != nil), ("--collapse-id", collapseID != nil),
      ("--channel", channel != nil),
    ]
  }

  /// Refuses the flags for the gateway.
  func refuse(besides other: String, because reason: String) throws {
    try Options.exclude(aboutApp, other, because: reason)
  }

  /// Refuses all flags.
  func refuseAll(besides other: String, because reason: String) throws {
    try refuse(besides: other, because: reason)
    try Options.exclude(aboutCampaign, other, because: reason)
  }

  var isHTTP2: Bool { transport == .http2 }

  /// Checks the flags, for a send without a configuration.
  ///
  /// - Parameters:
  ///   - hasGateway: `--gateway` is given.
  ///   - hasCertificate: `--certificate` is given.
  func check(hasGateway: Bool, hasCertificate: Bool) throws {
    guard isHTTP2 else {
      return try Options.require("--transport http2", for: aboutApp.dropFirst() + aboutCampaign)
    }
    if environment != nil {
      try Options.exclude([("--gateway", hasGateway)], "--environment", because: "each selects a gateway")
    }
    try key.check(hasCertificate: hasCertificate, hasTopic: topic != nil)
  }

  func requestTimeoutDuration() throws -> Duration? {
    try requestTimeout.map {
      try Options.duration($0, flag: "--request-timeout", in: AppSettings.Bounds.requestTimeout)
    }
  }

  /// Sets the settings of the app.
  func apply(to settings: inout AppSettings) throws {
    if let transport { settings.transport = transport }
    if let environment { settings.environment = environment }
    if let topic { settings.topic = topic }
    if let timeout = try requestTimeoutDuration() { settings.requestTimeout = timeout }
  }

  /// The headers that the flags set.
  var overrides: HeaderOverrides {
    HeaderOverrides(topic: topic, pushType: pushType, collapseIdentifier: collapseID, channelIdentifier: channel)
  }
}

extension AppSettings.Transport: ExpressibleByArgument {}
extension PushEnvironment: ExpressibleByArgument {}
extension PushType: ExpressibleByArgument {}
