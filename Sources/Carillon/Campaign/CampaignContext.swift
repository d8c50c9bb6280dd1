internal import Foundation
internal import PushEngine
internal import PushTransport
internal import PushWire

/// What the journal keeps of a campaign for whoever resumes it, beside what the engine needs.
package struct CampaignContext: Sendable, Codable {
  /// Single notifications, whose senders have gone with their process.
  package var isSingleSends = false
  /// The user's own name for the campaign.
  package var name = ""
  /// The notification, if it has placeholders: the journal keeps only what all have in common.
  package var template: String?
  /// Of the token file that it reads: it can only be resumed with the same one. Nil for other
  /// recipients, and for files that cannot be read twice, such as pipes.
  package var tokens: FileFingerprint?
  /// The run whose notifications these are, for what a service took in: see ``IntakeRunID``.
  package var intakeRun: String?
  /// The bridge has taken them in.
  package var isBridge = false
  /// Other nodes can take them over.
  package var isShared = false
  /// What a service calls it: see ``ServedCampaign``.
  package var served: String?
  /// Of a campaign of `carillon send`.
  package var send: Send?

  private enum CodingKeys: CodingKey {
    case isSingleSends, name, template, tokens, intakeRun, isBridge, isShared, served
  }

  package init() {}

  init(intakeRun: IntakeRunID, isBridge: Bool, isShared: Bool) {
    self.intakeRun = NotificationID(run: intakeRun, line: 0).description
    (self.isBridge, self.isShared) = (isBridge, isShared)
  }

  /// What another program wrote counts as a campaign without a name.
  package init(reading bytes: [UInt8]) {
    self = (try? JSONDecoder().decode(CampaignContext.self, from: Data(bytes))) ?? CampaignContext()
  }

  package init(from decoder: any Decoder) throws {
    let values = try decoder.container(keyedBy: CodingKeys.self)
    tokens = try values.decodeIfPresent(FileFingerprint.self, forKey: .tokens)
    // A send has no such key: its own keys stand beside that of the token file.
    guard let isSingleSends = try values.decodeIfPresent(Bool.self, forKey: .isSingleSends) else {
      send = try Send(from: decoder)
      return
    }
    self.isSingleSends = isSingleSends
    name = try values.decode(String.self, forKey: .name)
    template = try values.decodeIfPresent(String.self, forKey: .template)
    intakeRun = try values.decodeIfPresent(String.self, forKey: .intakeRun)
    isBridge = try values.decodeIfPresent(Bool.self, forKey: .isBridge) ?? false
    isShared = try values.decodeIfPresent(Bool.self, forKey: .isShared) ?? false
    served = try values.decodeIfPresent(String.self, forKey: .served)
  }

  package func encode(to encoder: any Encoder) throws {
    var values = encoder.container(keyedBy: CodingKeys.self)
    try values.encodeIfPresent(tokens, forKey: .tokens)
    if let send { return try send.encode(to: encoder) }
    try values.encode(isSingleSends, forKey: .isSingleSends)
    try values.encode(name, forKey: .name)
    try values.encodeIfPresent(template, forKey: .template)
    try values.encodeIfPresent(intakeRun, forKey: .intakeRun)
    if isBridge { try values.encode(isBridge, forKey: .isBridge) }
    if isShared { try values.encode(isShared, forKey: .isShared) }
    try values.encodeIfPresent(served, forKey: .served)
  }

  package var bytes: [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    // Plain values can always be encoded.
    return (try? encoder.encode(self)).map(Array.init) ?? []
  }
}

extension CampaignContext {
  /// Everything about a campaign of `carillon send` that was said by flags and files when it began.
  /// No secrets, only the paths to them, which are absolute.
  package struct Send: Codable, Sendable {
    /// The version of this format.
    var version = 2
    private var settings: StoredApp
    /// The account names the app by its certificate's topic.
    package var isNamedByTopic: Bool
    package var payloadFile: String
    package var payload: FileFingerprint
    package var tokensFile: String
    /// As the user named it, for the account and the list of outcomes.
    package var tokensName: String
    /// Where to list what was not accepted.
    package var outcomes: String?
    /// Where to list whose devices are gone.
    package var gone: String?
    /// Seconds since 1970.
    package var begunAt: UInt32

    package init(
      _ app: AppConfiguration, isNamedByTopic: Bool, payloadFile: String, payload: FileFingerprint,
      tokensFile: String, outcomes: String?, gone: String?, begunAt: UInt32
    ) {
      settings = StoredApp(app.withAbsolutePaths)
      self.isNamedByTopic = isNamedByTopic
      self.payloadFile = Self.absolute(payloadFile)
      self.payload = payload
      self.tokensFile = Self.absolute(tokensFile)
      tokensName = tokensFile
      self.outcomes = outcomes.map(Self.absolute)
      self.gone = gone.map(Self.absolute)
      self.begunAt = begunAt
    }

    package var app: AppConfiguration { settings.app }

    fileprivate static func absolute(_ path: String) -> String { URL(fileURLWithPath: path).standardizedFileURL.path }
  }
}

extension AppConfiguration {
  /// With paths that mean the same wherever the command is started from.
  var withAbsolutePaths: AppConfiguration {
    var app = self
    app.credential = Credential(credential.settings.mapPaths(CampaignContext.Send.absolute))
    app.trustedAuthorities = trustedAuthorities.map(CampaignContext.Send.absolute)
    app.proxy = proxy?.mapPaths(CampaignContext.Send.absolute)
    return app
  }
}

/// An app in the journal, in the shape that version 2 of the context has.
struct StoredApp: Codable, Sendable {
  private struct Batching: Codable {
    var maxBytes: Int
    var maxDelay: Duration
  }

  private struct Settle: Codable {
    var quiet: Duration
    var confirm: LanePolicy.Confirm
  }

  private struct Window: Codable {
    var notifications: Int
    var bytes: Int
  }

  private struct Proxy: Codable {
    var scheme: ProxyScheme
    var host: String
    var port: Int
    var username: String?
    var password: ProxyPassword?
    var trust: String?
  }

  private var id: String
  private var topic: String?
  private var environment: PushEnvironment
  private var transport: AppConfiguration.Transport.Name
  private var command: PushWire.FrameVersion
  private var credential: AppCredential
  private var pushType: PushWire.PushType
  private var requestTimeout: Duration
  private var streams: Int
  private var pingInterval: Duration
  private var gateway: Endpoint?
  private var feedbackService: Endpoint?
  private var channelService: Endpoint?
  private var trust: String?
  private var proxy: Proxy?
  private var connections: ClosedRange<Int>
  private var connectionsPerMinute: Int?
  private var batching: Batching
  private var window: Window
  private var settle: Settle
  private var onUnknown: LanePolicy.OnUnknown
  private var attempts: Int
  private var patience: Duration
  /// Nil: of a version that did not have it.
  private var maxAge: Duration?
  private var rateLimit: Double?
  private var weight: Int
  // Versions between demand these two, which concern only a service. Older ones do not have them.
  private var bridgeClients: [String]? = []
  private var openCampaignCount: Int? = 500

  init(_ app: AppConfiguration) {
    id = app.id
    topic = app.topic
    environment = app.environment
    transport = app.transport.name
    command = app.command
    credential = app.credential.settings
    pushType = app.pushType.wire
    requestTimeout = app.http2.requestTimeout
    streams = app.http2.concurrentRequests
    pingInterval = app.http2.pingInterval
    gateway = app.gateway?.endpoint
    feedbackService = app.feedbackService?.endpoint
    channelService = app.channelService?.endpoint
    trust = app.trustedAuthorities
    proxy = app.proxy.map { proxy in
      Proxy(
        scheme: proxy.scheme.wire, host: proxy.host, port: proxy.port, username: proxy.login?.username,
        password: proxy.login?.password, trust: proxy.trustedAuthorities)
    }
    connections = app.connections
    connectionsPerMinute = app.connectionsPerMinute
    batching = Batching(maxBytes: app.batching.byteCount, maxDelay: app.batching.delay)
    window = Window(notifications: app.window.notifications, bytes: app.window.bytes)
    settle = Settle(quiet: app.settling.quiet, confirm: app.confirm)
    (onUnknown, attempts, patience) = (app.onUnknown.wire, app.attempts, app.patience)
    (maxAge, rateLimit, weight) = (app.maxAge, app.rateLimit, app.weight)
  }

  var app: AppConfiguration {
    var app = AppConfiguration(
      id: id, topic: topic, transport: AppConfiguration.Transport(transport, environment),
      credential: AppConfiguration.Credential(credential))
    app.command = command
    app.pushType = PushNotification.PushType(wire: pushType)
    app.http2.requestTimeout = requestTimeout
    app.http2.concurrentRequests = streams
    app.http2.pingInterval = pingInterval
    app.gateway = gateway.map(AppConfiguration.Gateway.init)
    app.feedbackService = feedbackService.map(AppConfiguration.Gateway.init)
    app.channelService = channelService.map(AppConfiguration.Gateway.init)
    app.trustedAuthorities = trust
    if let proxy {
      var stored = AppConfiguration.Proxy(
        AppConfiguration.Proxy.Scheme(wire: proxy.scheme), host: proxy.host, port: proxy.port)
      if let username = proxy.username, let password = proxy.password {
        stored.login = AppConfiguration.Proxy.Login(username: username, password: password)
      }
      stored.trustedAuthorities = proxy.trust
      app.proxy = stored
    }
    app.connections = connections
    app.connectionsPerMinute = connectionsPerMinute
    app.batching.byteCount = batching.maxBytes
    app.batching.delay = batching.maxDelay
    app.window.notifications = window.notifications
    app.window.bytes = window.bytes
    app.settling.quiet = settle.quiet
    app.confirm = settle.confirm
    app.onUnknown = AppConfiguration.UnknownPolicy(wire: onUnknown)
    app.attempts = attempts
    app.patience = patience
    if let maxAge { app.maxAge = maxAge }
    app.rateLimit = rateLimit
    app.weight = weight
    return app
  }
}
