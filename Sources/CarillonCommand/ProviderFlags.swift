internal import ArgumentParser
internal import Carillon
internal import PushServer
internal import PushWire

/// The flags of `send` that speak of HTTP/2.
struct ProviderFlags: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "The gateway's protocol: Apple's today (http2), or the one that its private successors and simulators speak (default: binary).",
      valueName: "binary|http2"))
  var transport: AppSettings.Transport?
  @Option(
    help: ArgumentHelp("Apple's own gateway of this environment, with --transport http2 and no --gateway.", valueName: "production|sandbox"))
  var environment: PushEnvironment?
  @Option(
    help: ArgumentHelp(
      "The app's bundle identifier; the suffix that a push type asks for is added (default: what the certificate says; needed with --token-key).",
      valueName: "bundle"))
  var topic: String?
  @Option(
    help: ArgumentHelp("What kind of notification it is (default: the configuration's, otherwise alert; to a channel liveactivity).", valueName: "type"))
  var pushType: PushType?
  @Option(
    help: ArgumentHelp(
      "Notifications with the same one replace each other on a device, 1 to 64 characters; a column \"collapse-id\" of the token file goes before it (default: none).",
      valueName: "id"))
  var collapseID: String?
  @Option(help: ArgumentHelp("The token signing key from the developer account, instead of a certificate.", valueName: "file.p8")) var tokenKey: String?
  @Option(help: ArgumentHelp("The key's ten characters (default: those in the name AuthKey_….p8).", valueName: "id")) var keyID: String?
  @Option(help: ArgumentHelp("The team's ten characters; needed with --token-key.", valueName: "id")) var teamID: String?
  @Option(
    help: ArgumentHelp("How long an answer may take, until a notification counts as unknown (default: 30).", valueName: "seconds"))
  var requestTimeout: String?
  @Option(
    help: ArgumentHelp("Sends one broadcast to this channel of Live Activities, instead of --tokens; needs --expiration.", valueName: "id"))
  var channel: String?

  /// Flags that say how to reach the gateway: a configuration file says the same.
  private var aboutApp: [(String, Bool)] {
    [
      ("--transport", transport != nil), ("--environment", environment != nil), ("--token-key", tokenKey != nil), ("--key-id", keyID != nil),
      ("--team-id", teamID != nil), ("--request-timeout", requestTimeout != nil),
    ]
  }

  /// Flags about what is sent.
  private var aboutCampaign: [(String, Bool)] {
    [("--topic", topic != nil), ("--push-type", pushType != nil), ("--collapse-id", collapseID != nil), ("--channel", channel != nil)]
  }

  func refuse(besides other: String, because reason: String) throws {
    for (flag, isGiven) in aboutApp where isGiven { throw ValidationError("\(flag) and \(other) exclude each other: \(reason).") }
  }

  /// The same for all of them.
  func refuseAll(besides other: String, because reason: String) throws {
    try refuse(besides: other, because: reason)
    for (flag, isGiven) in aboutCampaign where isGiven { throw ValidationError("\(flag) and \(other) exclude each other: \(reason).") }
  }

  var isHTTP2: Bool { transport == .http2 }

  /// What the flags alone can get wrong, where no configuration says how to reach the gateway.
  ///
  /// - Parameters:
  ///   - hasGateway: by a flag of its own.
  ///   - hasCertificate: the same.
  func check(hasGateway: Bool, hasCertificate: Bool) throws {
    guard isHTTP2 else {
      for (flag, isGiven) in aboutApp.dropFirst() + aboutCampaign where isGiven { throw ValidationError("\(flag) needs --transport http2.") }
      return
    }
    if hasGateway, environment != nil { throw ValidationError("--gateway and --environment exclude each other: each says where to send to.") }
    if tokenKey == nil {
      for (flag, isGiven) in [("--key-id", keyID != nil), ("--team-id", teamID != nil)] where isGiven {
        throw ValidationError("\(flag) needs --token-key FILE.")
      }
      return
    }
    if hasCertificate { throw ValidationError("--certificate and --token-key exclude each other: each says who sends.") }
    guard teamID != nil else { throw ValidationError("--token-key needs --team-id ID: the ten characters of the team.") }
    guard keyIdentifier != nil else { throw ValidationError("--token-key needs --key-id ID, as its name is not like AuthKey_ABC123DEFG.p8.") }
    guard topic != nil else { throw ValidationError("--token-key needs --topic BUNDLE: a key does not say which app it is for.") }
  }

  private var keyIdentifier: String? { keyID ?? tokenKey.flatMap(TokenKeyFile.keyIdentifier) }

  /// The token key that the flags name.
  var tokenKeyFile: TokenKeyFile? {
    guard let tokenKey, let keyIdentifier, let teamID else { return nil }
    return TokenKeyFile(file: tokenKey, keyIdentifier: keyIdentifier, teamIdentifier: teamID)
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
  var wishes: SendPlan.Wishes {
    SendPlan.Wishes(topic: topic, pushType: pushType, collapseIdentifier: collapseID, channelIdentifier: channel)
  }
}

extension AppSettings.Transport: ExpressibleByArgument {}
extension PushEnvironment: ExpressibleByArgument {}
extension PushType: ExpressibleByArgument {}
