internal import Foundation
internal import PushEngine
internal import PushTransport
internal import PushWire

/// What the journal keeps for `carillon send --resume`: everything about one campaign that was said
/// by flags and files when it began. No secrets, only the paths to them.
struct CampaignContext: Codable, Sendable {
  /// The version of this format.
  var version = 2
  /// With absolute paths.
  var settings: StoredApp
  /// The account names the app by its certificate's topic.
  var isNamedByTopic: Bool
  var payloadFile: String
  var payload: FileFingerprint
  var tokensFile: String
  var tokens: FileFingerprint
  /// As the user named it, for the account and the list of outcomes.
  var tokensName: String
  /// Where to list what was not accepted.
  var outcomes: String?
  /// Where to list whose devices are gone.
  var gone: String?
  /// Seconds since 1970.
  var begunAt: UInt32

  var app: AppConfiguration { settings.app }

  var encoded: [UInt8] {
    get throws {
      let encoder = JSONEncoder()
      encoder.outputFormatting = .sortedKeys
      return try Array(encoder.encode(self))
    }
  }

  /// - Parameter directory: the journal's, for messages.
  static func read(_ bytes: [UInt8], directory: String) throws -> CampaignContext {
    do {
      return try JSONDecoder().decode(CampaignContext.self, from: Data(bytes))
    } catch {
      throw CarillonError(
        .journal,
        "The journal \(directory) holds a campaign that another version of carillon began: resume it with that version."
      )
    }
  }

  static func absolute(_ path: String) -> String { URL(fileURLWithPath: path).standardizedFileURL.path }
}

extension AppConfiguration {
  /// With paths that mean the same wherever the command is started from.
  var withAbsolutePaths: AppConfiguration {
    var app = self
    app.credential = Credential(credential.settings.mapPaths(CampaignContext.absolute))
    app.trustedAuthorities = trustedAuthorities.map(CampaignContext.absolute)
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
  private var trust: String?
  private var connections: ClosedRange<Int>
  private var connectionsPerMinute: Int?
  private var batching: Batching
  private var window: Window
  private var settle: Settle
  private var onUnknown: LanePolicy.OnUnknown
  private var attempts: Int
  private var patience: Duration
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
    trust = app.trustedAuthorities
    connections = app.connections
    connectionsPerMinute = app.connectionsPerMinute
    batching = Batching(maxBytes: app.batching.byteCount, maxDelay: app.batching.delay)
    window = Window(notifications: app.window.notifications, bytes: app.window.bytes)
    settle = Settle(quiet: app.settling.quiet, confirm: app.confirm)
    onUnknown = app.onUnknown.wire
    attempts = app.attempts
    patience = app.patience
    rateLimit = app.rateLimit
    weight = app.weight
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
    app.trustedAuthorities = trust
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
    app.rateLimit = rateLimit
    app.weight = weight
    return app
  }
}
