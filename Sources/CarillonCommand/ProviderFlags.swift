internal import ArgumentParser
internal import Carillon
internal import PushWire

/// The flags of `send` that speak of HTTP/2.
struct ProviderFlags: ParsableArguments {
  @Option(
    help: .init(
      "The gateway's protocol: Apple's today (http2), or the one that its private successors and simulators speak "
        + "(default: binary).", valueName: "binary|http2")) var transport: AppSettings.Transport?
  @Option(
    help: .init(
      "Apple's own gateway of this environment, with --transport http2 and no --gateway.",
      valueName: "production|sandbox")) var environment: PushEnvironment?
  @Option(
    help: .init(
      "The app's bundle identifier; the suffix that a push type asks for is added (default: what the certificate "
        + "says; needed with --token-key).", valueName: "bundle")) var topic: String?
  @Option(
    help: .init(
      "What kind of notification it is (default: the configuration's, otherwise alert; to a "
        + "channel liveactivity).", valueName: "type")) var pushType: PushType?
  @Option(
    help: .init(
      "Notifications with the same one replace each other on a device, 1 to 64 characters; a column \"collapse-id\" "
        + "of the token file goes before it (default: none).", valueName: "id")) var collapseID: String?
  @OptionGroup var key: TokenKeyOptions
  @Option(
    help: .init(
      "How long an answer may take, until a notification counts as unknown (default: 30).", valueName: "seconds"))
  var requestTimeout: String?
  @Option(
    help: .init(
      "Sends one broadcast to this channel of Live Activities, instead of --tokens; needs --expiration.",
      valueName: "id")) var channel: String?

  /// Flags that say how to reach the gateway: a configuration file says the same.
  private var aboutApp: [(String, Bool)] {
    [
      ("--transport", transport != nil), ("--environment", environment != nil),
      ("--request-timeout", requestTimeout != nil),
    ] + key.given
  }

  /// Flags about what is sent.
  private var aboutCampaign: [(String, Bool)] {
    [
      ("--topic", topic != nil), ("--push-type", pushType != nil), ("--collapse-id", collapseID != nil),
      ("--channel", channel != nil),
    ]
  }

  func refuse(besides other: String, because reason: String) throws {
    try Options.exclude(aboutApp, other, because: reason)
  }

  /// The same for all of them.
  func refuseAll(besides other: String, because reason: String) throws {
    try refuse(besides: other, because: reason)
    try Options.exclude(aboutCampaign, other, because: reason)
  }

  var isHTTP2: Bool { transport == .http2 }

  /// What the flags alone can get wrong, where no configuration says how to reach the gateway.
  ///
  /// - Parameters:
  ///   - hasGateway: by a flag of its own.
  ///   - hasCertificate: the same.
  func check(hasGateway: Bool, hasCertificate: Bool) throws {
    guard isHTTP2 else {
      for (flag, isGiven) in aboutApp.dropFirst() + aboutCampaign where isGiven {
        throw ValidationError("\(flag) needs --transport http2.")
      }
      return
    }
    if hasGateway, environment != nil {
      throw ValidationError("--gateway and --environment exclude each other: each says where to send to.")
    }
    try key.check(hasCertificate: hasCertificate, hasTopic: topic != nil)
  }

  func checkRequestTimeout() throws {
    guard let requestTimeout else { return }
    let timeout = try Options.duration(requestTimeout, flag: "--request-timeout")
    guard timeout >= .milliseconds(100), timeout <= .seconds(600) else {
      throw ValidationError("--request-timeout must be from 100ms to 10m, not \"\(requestTimeout)\".")
    }
  }

  /// Puts what they say of the app into its settings.
  func apply(to settings: inout AppSettings) throws {
    if let transport { settings.transport = transport }
    if let environment { settings.environment = environment }
    if let topic { settings.topic = topic }
    if let requestTimeout { settings.requestTimeout = try Options.duration(requestTimeout, flag: "--request-timeout") }
  }

  /// What they say of what is sent.
  var overrides: HeaderOverrides {
    HeaderOverrides(topic: topic, pushType: pushType, collapseIdentifier: collapseID, channelIdentifier: channel)
  }
}

extension AppSettings.Transport: ExpressibleByArgument {}
extension PushEnvironment: ExpressibleByArgument {}
extension PushType: ExpressibleByArgument {}
