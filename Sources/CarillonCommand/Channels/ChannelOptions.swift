internal import ArgumentParser
internal import Carillon
internal import PushServer
internal import PushTransport
internal import PushWire

/// Where channels are managed, and as whom.
struct ChannelOptions: ParsableArguments {
  @Option(help: .init("A configuration file; --app says which of its apps.", valueName: "file")) var config: String?
  @Option(help: .init("The app in the configuration file (default: the only one).", valueName: "id")) var app: String?
  @Option(
    help: .init(
      "Whose channels: Apple keeps those of its environments apart (default: production).",
      valueName: "production|sandbox")) var environment: PushEnvironment?
  @Option(
    help: .init("The management service, if it is not Apple's: a simulator's --channels-port.", valueName: "host:port"))
  var gateway: String?
  @Option(help: .init("The app's bundle identifier (default: what the certificate says).", valueName: "bundle"))
  var topic: String?
  @OptionGroup var identity: IdentityOptions
  @OptionGroup var key: TokenKeyOptions
  @Flag(help: "One JSON object on standard output.") var json = false

  func check() throws {
    try identity.check()
    if let gateway { _ = try Options.endpoint(gateway, flag: "--gateway") }
    if config != nil {
      try identity.refuse(besides: "--config")
      let besides = [("--environment", environment != nil), ("--topic", topic != nil)] + key.given
      try Options.exclude(besides, "--config", because: "the configuration file says it")
      return
    }
    if app != nil { throw ValidationError("--app needs --config.") }
    guard identity.certificate != nil || key.isGiven else {
      throw ValidationError("--token-key FILE, --certificate FILE or --config FILE must say who asks.")
    }
    try key.check(hasCertificate: identity.certificate != nil, hasTopic: topic != nil, who: "asks")
  }

  /// The app, as it sends.
  private func settings() throws -> AppSettings {
    if let config {
      let configuration = try describingErrors { try DeploymentConfiguration.read(file: config) }
      let settings = try configuration.app(app, file: config)
      guard settings.transport == .http2 else {
        throw CommandFailure.usage(
          "The app \(settings.id) speaks the binary protocol, which has no channels: give it transport: http2")
      }
      guard settings.gateway == nil || gateway != nil else {
        throw CommandFailure.usage(
          "--gateway HOST:PORT must say where the channels are managed, as \(config) names a gateway that is not "
            + "Apple's for the app \(settings.id)")
      }
      return settings
    }
    guard let credential = key.file.map(AppCredential.tokenKey) ?? identity.files.map(AppCredential.certificate) else {
      throw CommandFailure.usage("--token-key or --certificate is needed")
    }
    var settings = AppSettings(id: topic ?? "app", credential: credential)
    settings.transport = .http2
    settings.topic = topic
    settings.environment = environment ?? .production
    settings.trust = identity.trust
    return settings
  }

  /// Reads the credential.
  func service() throws -> ChannelService {
    try ChannelService(for: settings(), at: gateway.flatMap(Endpoint.init), unixSeconds: Int64(NIOLoop.wallClock))
  }
}
