internal import ArgumentParser
internal import Carillon
internal import PushServer
internal import PushTransport
internal import PushWire

/// The management service, the app and its credential.
struct ChannelOptions: ParsableArguments {
  @Option(help: .init("A configuration file; --app selects one of its apps.", valueName: "file")) var config: String?
  @Option(help: .init("The app in the configuration file (default: the only one).", valueName: "id")) var app: String?
  @Option(
    help: .init(
      "The environment; each has channels of its own (default: production).",
      valueName: "production|sandbox")) var environment: PushEnvironment?
  @Option(
    help: .init(
      "The management service (default: Apple's); for a simulator, its --channels-port.", valueName: "host:port"))
  var gateway: String?
  @Option(help: .init("The app's bundle identifier (default: the certificate's).", valueName: "bundle"))
  var topic: String?
  @OptionGroup var identity: IdentityOptions
  @OptionGroup var way: ProxyOptions
  @OptionGroup var key: TokenKeyOptions
  @Flag(help: "One JSON object on standard output.") var json = false

  func check() throws {
    try identity.check()
    try way.check()
    if let gateway { _ = try Options.endpoint(gateway, flag: "--gateway") }
    if config != nil {
      try identity.refuse(besides: "--config")
      let besides = [("--environment", environment != nil), ("--topic", topic != nil)] + key.given + way.given
      try Options.exclude(besides, "--config", because: "the configuration file sets it")
      return
    }
    if app != nil { throw ValidationError("--app needs --config.") }
    guard identity.certificate != nil || key.isGiven else {
      throw ValidationError("A credential is missing: --token-key FILE, --certificate FILE or --config FILE.")
    }
    try key.check(hasCertificate: identity.certificate != nil, hasTopic: topic != nil)
  }

  private func chosenApp() throws -> AppConfiguration {
    if let config {
      let configuration = try failing { try DeploymentConfiguration.read(file: config) }
      let found = try failing(flag: "--app") { try configuration.app(app, file: config) }
      return found
    }
    guard let credential = key.file.map(AppCredential.tokenKey) ?? identity.files.map(AppCredential.certificate) else {
      throw CommandFailure.usage("A credential is missing: --token-key FILE or --certificate FILE")
    }
    var own = AppConfiguration(
      id: topic ?? "app", topic: topic, transport: AppConfiguration.Transport(.http2, environment ?? .production),
      credential: AppConfiguration.Credential(credential))
    own.trustedAuthorities = identity.trust
    own.proxy = try way.proxyOfFlags()
    return own
  }

  /// What the service answers.
  func ask<Answer>(_ question: (ChannelService) async throws(ChannelFailure) -> Answer) async throws -> Answer {
    let app = try chosenApp()
    let service = try failing(flag: config == nil ? "--topic" : nil, for: .configuration) {
      try ChannelService(for: app, at: gateway.flatMap(Endpoint.init), unixSeconds: Int64(NIOLoop.wallClock))
    }
    do throws(ChannelFailure) { return try await question(service) } catch { throw error.error }
  }
}
