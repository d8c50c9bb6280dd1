internal import PushEngine
internal import PushTransport
package import PushWire

/// The settings of one app. Names and defaults are those of the configuration file.
package struct AppSettings: Hashable, Sendable, Codable {
  package enum Transport: String, Hashable, Sendable, CaseIterable, Codable { case binary, http2 }

  /// Where the engine has a default of its own, it is the default here.
  private static let engine = AppRules(id: "")

  /// Letters, digits, `.`, `_` and `-`.
  package var id: String
  /// The bundle identifier. With the binary protocol for people and for checking the certificate,
  /// which decides; with HTTP/2 what `apns-topic` is made of, and needed with a token key.
  package var topic: String?
  package var environment = PushEnvironment.production
  package var transport = Transport.binary
  /// The frame layout of the binary protocol.
  package var command = Self.engine.command
  package var credential: AppCredential
  /// Of notifications that do not say it themselves. HTTP/2 only, as what follows up to `gateway`.
  package var pushType = PushType.alert
  /// How long an answer may take.
  package var requestTimeout = RequestPolicy().timeout
  /// Requests in flight on one connection, at most.
  package var streams = 1000
  /// After this idle time of a connection, a PING is sent.
  package var pingInterval = RequestPolicy().pingInterval
  /// Nil: Apple's for the environment, see ``gatewayOrDefault``.
  package var gateway: Endpoint?
  /// A PEM file with the authorities that the gateway's certificate is checked against; nil: the
  /// system's roots.
  package var trust: String?
  /// `connections: { min, max }`
  package var connections = Self.engine.connections
  /// `connections: { per-minute }`: new connections, all lanes together. Nil: see
  /// ``connectionsPerMinuteOrDefault``.
  package var connectionsPerMinute: Int?
  package var batching = Batching()
  package var window = Window()
  package var settle = Settle()
  package var onUnknown = Self.engine.policy.onUnknown
  package var attempts = Self.engine.policy.attempts
  /// How long the app keeps trying while nothing gets through at all.
  package var patience = Self.engine.patience
  /// Notifications per second; nil: no limit.
  package var rateLimit: Double?
  /// Its part of the processor when several apps have more to send than that manages.
  package var weight = Self.engine.weight
  /// `queue: { bytes }`, of the service: payloads that wait to be acknowledged. Nil: see
  /// ``queueByteCountOrDefault``.
  package var queueByteCount: Int?
  /// `bridge: { clients }`, of the service: certificates of the app's clients over the binary
  /// protocol, each a file or `sha256:` with the fingerprint.
  package var bridgeClients: [String] = []
  /// `time-zone`, of the service: for quiet hours, and for devices without a time zone. Nil: UTC.
  package var timeZone: String?
  /// `quiet-hours`, of the service, such as `22:00-08:00`. Nil: none.
  package var quietHours: String?
  /// `audiences: { bytes }`, of the service: uploads of campaigns that are not forgotten yet. Nil:
  /// see ``audienceByteCountOrDefault``.
  package var audienceByteCount: Int?
  /// `campaigns: { unfinished }`, of the service: campaigns that have not ended, drafts included.
  package var openCampaignCount = 500
  /// `feedback: { every }`, of the service: how often the binary app's feedback service is read.
  /// Nil: daily. Zero: never.
  package var feedbackInterval: Duration?
  /// `feedback: { service }`. Nil: see ``feedbackOrDefault``.
  package var feedbackService: Endpoint?

  package struct Batching: Hashable, Sendable, Codable {
    package var maxBytes = AppSettings.engine.batchByteCount
    package var maxDelay = AppSettings.engine.batchDelay
    package init() {}
  }

  package struct Window: Hashable, Sendable, Codable {
    package var notifications = AppSettings.engine.policy.windowCount
    package var bytes = AppSettings.engine.policy.ringBlockCount * NotificationRing.blockByteCount
    package init() {}
  }

  package struct Settle: Hashable, Sendable, Codable {
    package var quiet = AppSettings.engine.policy.quiet
    package var confirm = AppSettings.engine.policy.confirm
    package init() {}
  }

  package init(id: String, credential: AppCredential) {
    self.id = id
    self.credential = credential
  }

  /// Apple's hosts are treated politely: 3,000 a minute, enough for a campaign in which one token
  /// in a thousand is refused. Any other gateway is its owner's: 60,000.
  package var connectionsPerMinuteOrDefault: Int {
    connectionsPerMinute ?? (AppleHosts.isAppleName(gatewayOrDefault.host) ? 3_000 : 60_000)
  }

  /// The values that settings may have, whether a file or a flag sets them.
  package enum Bounds {
    package static let connections = 1...1000
    package static let weight = 1...100
    package static let openCampaigns = 1...10_000
    /// A thousand a second is more than two cores can connect.
    package static let connectionsPerMinute = 1...1_000_000
    package static let patience = Duration.seconds(1) ... .seconds(604_800)
    package static let quiet = Duration.milliseconds(10) ... .seconds(3600)
    package static let requestTimeout = Duration.milliseconds(100) ... .seconds(600)
    package static let batchDelay = Duration.zero ... .seconds(10)
  }

  /// 16 MiB.
  package var queueByteCountOrDefault: Int { queueByteCount ?? 16 << 20 }

  /// 8 GiB: a hundred million tokens.
  package var audienceByteCountOrDefault: Int { audienceByteCount ?? 8 << 30 }

  /// The gateway to connect to. Apple switched its binary gateways off in 2021, so binary senders
  /// should name one.
  package var gatewayOrDefault: Endpoint {
    if let gateway { return gateway }
    return switch (transport, environment) {
    case (.binary, .production): Endpoint(host: "gateway.push.apple.com", port: 2195)
    case (.binary, .sandbox): Endpoint(host: "gateway.sandbox.push.apple.com", port: 2195)
    case (.http2, .production): Endpoint(host: "api.push.apple.com", port: 443)
    case (.http2, .sandbox): Endpoint(host: "api.sandbox.push.apple.com", port: 443)
    }
  }
}
