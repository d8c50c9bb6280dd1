package import PushTransport
package import PushWire

/// One app: its topic's rules. What it connects to and with which credential is the dialer's business.
package struct AppConfiguration: Sendable {
  package var id: String
  /// What its lanes speak. Default: the binary protocol.
  package var transport = AppTransport.binary
  /// The frame layout of the binary protocol. Default 2; 1 and 0 for gateways that need them.
  package var command = FrameVersion.framed
  /// Connections the pool may have, from `min` (opened on demand, kept) to `max` (when the others cannot keep up). Default 1…8.
  package var connections = 1...8
  /// A batch is written when it has so many bytes. Default 64 KiB.
  package var batchByteCount = 65_536
  /// Or when its oldest frame has waited so long. Default 5 ms.
  package var batchDelay = Duration.milliseconds(5)
  package var policy = LanePolicy()
  /// Notifications per second; nil for no limit.
  package var rateLimit: Double?
  /// New connections per minute, over all lanes, as a rate with a burst of a quarter of it. Default 3000: enough for a campaign in which one token
  /// in a thousand is refused, few enough that no failure becomes a flood.
  package var connectionsPerMinute = 3_000.0
  /// Attempts before an app that never reached its gateway gives up. Default 3.
  package var dialAttempts = 3
  /// How long an app that did reach its gateway keeps trying without any progress. Default 15 min.
  package var patience = Duration.seconds(900)
  /// With a journal, a binary lane's intents run ahead by so many notifications at most: after a crash so
  /// many more than were sent may have arrived. Default 8192: about 32 full batches, of which the journal
  /// has to keep ahead.
  package var intentStep = 8_192
  /// Told of every batch and settlement of the app's lanes; nil: nobody. For measuring.
  package var observer: (any LaneObserver)?

  package init(id: String) {
    self.id = id
  }
}

/// What an app's lanes speak with its gateway.
package enum AppTransport: Sendable {
  /// The binary provider protocol: ``AppConfiguration/command``, batches, probes.
  case binary
  /// The HTTP/2 provider API.
  case http2(HTTP2Settings)
}

/// How an app speaks HTTP/2 (HTTP2ProviderAPI.md). What is sent in single campaigns' headers is `Campaign.headers`.
package struct HTTP2Settings: Sendable {
  /// What `:authority` says: the host, with the port unless it is 443.
  package var authority: String
  /// Where the value of `authorization` comes from: one source for all apps of the process that share a key. Nil: the certificate says who sends, and there is no such header.
  package var tokens: ProviderTokenSource?
  /// What rules about headers depend on.
  package var credential: ProviderCredentialKind
  /// How long an answer may take before the notification counts as unknown. Default 30 s.
  package var requestTimeout = Duration.seconds(30)
  /// Requests in flight on one connection, at most: the peer's present limit counts too. Default 1000.
  package var streamLimit = 1000
  /// A connection on which nothing has happened for so long is asked for a sign of life (PING). Default 1 h, the most that the service's documents advise.
  package var pingInterval = Duration.seconds(3600)
  /// A PING without an answer for so long closes the connection. Default 30 s.
  package var pingTimeout = Duration.seconds(30)
  /// When an answer says "not now" (500, 503): how long to wait before the next attempt, twice as long after each, with jitter. Default 1 s to 60 s. How many attempts
  /// there are is `LanePolicy.attempts`.
  package var backoff = Duration.seconds(1) ... .seconds(60)
  /// How long a device token waits after 429 TooManyRequests, twice as long after each. Default 1 s to 60 s.
  package var tokenDelay = Duration.seconds(1) ... .seconds(60)
  /// The breaker on tokens that the service calls bad; nil: none.
  package var breaker: Breaker? = Breaker()

  /// See ``RequestPolicy/plantedMistake``. Only tests set it.
  package var plantedMistake: RequestPolicy.PlantedMistake?

  /// A jump in the share of 400 BadDeviceToken and DeviceTokenNotForTopic means a wrong environment or topic: the app then pauses instead of going through its audience.
  package struct Breaker: Hashable, Sendable {
    /// Of the last ``sampleCount`` answers of an app, this share trips it. Default 0.5.
    package var share = 0.5
    /// Default 200: fewer answers say nothing.
    package var sampleCount = 200

    package init() {}
  }

  /// - Parameters:
  ///   - authority: see ``authority``.
  ///   - tokens: nil with a certificate.
  ///   - credential: `.token` exactly if there are tokens.
  package init(authority: String, tokens: ProviderTokenSource?, credential: ProviderCredentialKind) {
    precondition((tokens != nil) == (credential == .token), "a provider token belongs to a token key")
    self.authority = authority
    self.tokens = tokens
    self.credential = credential
  }
}

extension AppConfiguration {
  var badTokenBreaker: BadTokenBreaker? {
    guard case .http2(let settings) = transport, let breaker = settings.breaker else { return nil }
    return BadTokenBreaker(share: breaker.share, sampleCount: breaker.sampleCount)
  }
}

extension HTTP2Settings {
  var requestPolicy: RequestPolicy {
    var policy = RequestPolicy()
    policy.timeout = requestTimeout
    policy.pingInterval = pingInterval
    policy.pingTimeout = pingTimeout
    policy.backoff = backoff
    policy.tokenDelay = tokenDelay
    policy.plantedMistake = plantedMistake
    return policy
  }

  var sessionOptions: HTTP2ClientSession.Options {
    var options = HTTP2ClientSession.Options()
    options.streamLimit = min(streamLimit, RequestPolicy.streamCountLimit)
    return options
  }
}
