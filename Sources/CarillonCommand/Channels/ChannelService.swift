internal import ArgumentParser
internal import Carillon
internal import Foundation
internal import PushServer
internal import PushTransport
internal import PushWire

/// Where channels are managed, and as whom.
struct ChannelOptions: ParsableArguments {
  @Option(help: ArgumentHelp("A configuration file; --app says which of its apps.", valueName: "file")) var config: String?
  @Option(help: ArgumentHelp("The app in the configuration file (default: the only one).", valueName: "id")) var app: String?
  @Option(help: ArgumentHelp("Whose channels: Apple keeps those of its environments apart (default: production).", valueName: "production|sandbox"))
  var environment: PushEnvironment?
  @Option(help: ArgumentHelp("The management service, if it is not Apple's: a simulator's --channels-port.", valueName: "host:port")) var gateway: String?
  @Option(help: ArgumentHelp("The app's bundle identifier (default: what the certificate says).", valueName: "bundle")) var topic: String?
  @OptionGroup var identity: IdentityOptions
  @Option(help: ArgumentHelp("The token signing key from the developer account, instead of a certificate.", valueName: "file.p8")) var tokenKey: String?
  @Option(help: ArgumentHelp("The key's ten characters (default: those in the name AuthKey_….p8).", valueName: "id")) var keyID: String?
  @Option(help: ArgumentHelp("The team's ten characters; needed with --token-key.", valueName: "id")) var teamID: String?
  @Flag(help: "One JSON object on standard output.") var json = false

  func check() throws {
    try identity.check()
    if let gateway { _ = try Options.endpoint(gateway, flag: "--gateway") }
    if config != nil {
      try identity.refuse(besides: "--config")
      let besides = [
        ("--environment", environment != nil), ("--topic", topic != nil), ("--token-key", tokenKey != nil), ("--key-id", keyID != nil),
        ("--team-id", teamID != nil),
      ]
      for (flag, isGiven) in besides where isGiven { throw ValidationError("\(flag) and --config exclude each other: the configuration file says it.") }
      return
    }
    if app != nil { throw ValidationError("--app needs --config.") }
    guard identity.certificate != nil || tokenKey != nil else {
      throw ValidationError("--token-key FILE, --certificate FILE or --config FILE must say who asks.")
    }
    if tokenKey == nil {
      for (flag, isGiven) in [("--key-id", keyID != nil), ("--team-id", teamID != nil)] where isGiven {
        throw ValidationError("\(flag) needs --token-key FILE.")
      }
      return
    }
    if identity.certificate != nil { throw ValidationError("--certificate and --token-key exclude each other: each says who asks.") }
    guard teamID != nil else { throw ValidationError("--token-key needs --team-id ID: the ten characters of the team.") }
    guard keyIdentifier != nil else { throw ValidationError("--token-key needs --key-id ID, as its name is not like AuthKey_ABC123DEFG.p8.") }
    guard topic != nil else { throw ValidationError("--token-key needs --topic BUNDLE: a key does not say which app it is for.") }
  }

  private var keyIdentifier: String? { keyID ?? tokenKey.flatMap(TokenKeyFile.keyIdentifier) }

  /// The app, as it sends.
  private func settings() throws -> AppSettings {
    if let config {
      let configuration = try failing { try DeploymentConfiguration.read(file: config) }
      let settings = try configuration.app(app, file: config)
      guard settings.transport == .http2 else {
        throw CommandFailure.usage("The app \(settings.id) speaks the binary protocol, which has no channels: give it transport: http2")
      }
      guard settings.gateway == nil || gateway != nil else {
        throw CommandFailure.usage(
          "--gateway HOST:PORT must say where the channels are managed, as \(config) names a gateway that is not Apple's for the app \(settings.id)")
      }
      return settings
    }
    let credential: AppCredential
    if let tokenKey, let keyIdentifier, let teamID {
      credential = .tokenKey(TokenKeyFile(file: tokenKey, keyIdentifier: keyIdentifier, teamIdentifier: teamID))
    } else if let files = identity.files {
      credential = .certificate(files)
    } else {
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
    var settings = try settings()
    let endpoint = gateway.flatMap(Endpoint.init) ?? settings.environment.channelGateway
    settings.gateway = endpoint
    let access = try failing { try ResolvedCredential.load(settings, registry: ProviderTokenRegistry(), validAt: Int64(Date().timeIntervalSince1970)) }
    var headers = ProviderHeaders(topic: settings.topic, pushType: .liveActivity)
    headers.channelIdentifier = ""
    guard let bundle = headers.bundleIdentifier(for: access.kind) else {
      throw CommandFailure.usage("--topic BUNDLE must say which app's channels, as the certificate does not")
    }
    return ChannelService(bundle: bundle, endpoint: endpoint, access: access)
  }
}

extension PushEnvironment {
  /// Where channels are managed (HTTP2ProviderAPI.md, section 6).
  fileprivate var channelGateway: Endpoint {
    switch self {
    case .production: Endpoint(host: "api-manage-broadcast.push.apple.com", port: 2196)
    case .sandbox: Endpoint(host: "api-manage-broadcast.sandbox.push.apple.com", port: 2195)
    }
  }
}

/// The channels of one app at the service that manages them.
struct ChannelService {
  let bundle: String
  let endpoint: Endpoint
  let access: ResolvedCredential

  private static let timeout = Duration.seconds(30)

  /// - Parameters:
  ///   - isForAll: all of the app's channels, not one.
  ///   - channel: the one that is asked about.
  /// - Throws: what the service says against it, with the exit status for it.
  func ask(_ method: String, isForAll: Bool = false, channel: String? = nil, body: [UInt8] = []) async throws -> HTTP2Reply {
    // A request is traced by its identifier, as a notification is by its apns-id.
    let identifier = APNSIdentifier(high: .random(in: 0 ... .max) & ~0xF000 | 0x4000, low: .random(in: 0 ... .max) & ~(3 << 62) | 2 << 62)
    var fields = [HTTP2Field("apns-request-id", identifier.description, isIndexed: false)]
    if let channel { fields.append(HTTP2Field("apns-channel-id", channel, isIndexed: false)) }
    let template = RequestTemplate(
      method: method, authority: endpoint.authority, path: "/1/apps/\(bundle)/\(isForAll ? "all-channels" : "channels")", fields: fields, payload: body)
    let reply = try await ProviderExchange.run(
      template, authorization: try authorization(), to: endpoint, context: access.context, timeout: Self.timeout)
    guard (200..<300).contains(reply.status) else {
      let reason = ProviderErrorBody(parsing: reply.body).reason
      let text = unsafe reply.body.withUnsafeBytes { unsafe ProviderErrorBody.reasonText(in: $0) }
      let refusal = ProviderRefusal(status: reply.status, reason: reason, otherReason: text)
      throw CommandFailure(
        status: .findings, sentence: "\(endpoint) refuses it: \(refusal)\(reason.flatMap(Self.advice).map { ": \($0)" } ?? "").")
    }
    return reply
  }

  private func authorization() throws -> String? {
    guard let tokens = access.tokens else { return nil }
    switch tokens.token(now: Instant(nanoseconds: 0), unixSeconds: Int64(Date().timeIntervalSince1970)) {
    case .token(let token): return token.authorization
    case .wait: throw CommandFailure.couldNotRun("No provider token can be made now")
    case .failed(let error): throw CommandFailure.describing(error)
    }
  }

  /// What a person can do about it.
  private static func advice(_ reason: ProviderReason) -> String? {
    switch reason {
    case .featureNotEnabled: "broadcasts are switched on for the app in the developer account, under its capability Push Notifications"
    case .channelNotRegistered: "the app has no such channel in this environment"
    case .badChannelIdentifier: "that is no channel's identifier"
    case .cannotCreateChannel: "an app can have 10,000 channels in an environment: delete some"
    case .topicMismatch, .topicDisallowed: "the credential is not for this app"
    case .invalidProviderToken: "check key, key ID, team ID and this machine's clock"
    default: nil
    }
  }

  /// A key of the object that a reply consists of.
  static func value(_ key: String, in reply: HTTP2Reply) -> JSONValue? {
    let parsed = unsafe reply.body.withUnsafeBytes { bytes -> JSONValue? in
      do throws(JSONError) { return try unsafe JSONValue(parsing: bytes) } catch { return nil }
    }
    guard case .object(let members) = parsed else { return nil }
    return members.first { $0.key == key }?.value
  }
}
