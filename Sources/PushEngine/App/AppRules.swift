package import PushTransport
package import PushWire

/// The settings of one app. The dialer knows the gateway's address and the credential.
package struct AppRules: Sendable {
  package var id: String
  /// The protocol of its lanes. Default: the binary protocol.
  package var transport = AppTransport.binary
  /// The frame layout of the binary protocol. Default 2; 1 and 0 for gateways that need them.
  package var command = FrameVersion.framed
  /// The number of connections: at least `min` (opened on demand, then kept), at most `max` (when
  /// the others are too slow). Default 1…8.
  package var connections = 1...8
  /// A batch is written when it reaches this size. Default 64 KiB.
  package var batchByteCount = 65_536
  /// A batch is also written when its oldest frame has waited this long. Default 5 ms.
  package var batchDelay = Duration.milliseconds(5)
  package var policy = LanePolicy()
  /// Notifications per second; nil: no limit.
  package var rateLimit: Double?
  /// Its part of an event loop that several apps keep busy: a number in proportion to theirs, from
  /// 1 on. Default 1.
  package var weight = 1
  /// New connections per minute over all lanes, with a burst of a quarter of it. Default 3000:
  /// enough for a campaign in which one token in a thousand is refused, and few enough that a
  /// failure does not flood the gateway.
  package var connectionsPerMinute = 3_000.0
  /// Attempts after which an app that never reached its gateway stops. Default 3.
  package var dialAttempts = 3
  /// How long an app that has reached its gateway keeps trying without progress. Default 15 min.
  package var patience = Duration.seconds(900)
  /// How long a notification may wait to be sent; then it has expired. Default 30 days.
  package var maxAge = Self.maxAge
  package static let maxAge = Duration.seconds(30 * 86_400)
  /// With a journal: what would end all campaigns of the app, such as a refused credential, only
  /// suspends it, see ``App/resume()``. For services that take in more all the time. Default false.
  package var isSuspendable = false
  /// With a journal: how many notifications a binary lane's intents run ahead at most. After a
  /// crash, this many more than were sent may have arrived. Default 8192, about 32 full batches.
  /// The journal must stay ahead of the sending by that.
  package var intentStep = 8_192
  /// Observes every batch and settlement of the app's lanes, for measurements; nil: no observer.
  package var observer: (any LaneObserver)?

  package init(id: String) { self.id = id }
}

/// The protocol between an app's lanes and its gateway.
package enum AppTransport: Sendable {
  /// The binary provider protocol: ``AppRules/command``, batches, probes.
  case binary
  /// The HTTP/2 provider API.
  case http2(HTTP2Settings)
}

/// An app's settings for HTTP/2 (HTTP2ProviderAPI). Headers of single campaigns are in
/// ``Campaign/headers``.
package struct HTTP2Settings: Sendable {
  /// The value of `:authority`: the host, with the port unless it is 443.
  package var authority: String
  /// The source of the value of `authorization`. All apps of the process with the same key share
  /// one source. Nil: the app has a certificate, and there is no such header.
  package var tokens: ProviderTokenSource?
  /// The kind of credential, on which rules about headers depend.
  package var credential: ProviderCredentialKind
  /// The most requests in flight on one connection. The peer's limit applies too. Default 1000.
  package var streamLimit = 1000
  /// Times and limits of its requests. `LanePolicy.attempts` limits the number of attempts.
  package var policy = RequestPolicy()
  /// The breaker on tokens that the service calls bad; nil: none.
  package var breaker: Breaker? = Breaker()

  /// A jump in the share of 400 BadDeviceToken and DeviceTokenNotForTopic means a wrong environment
  /// or topic. The app then stops instead of going through its audience.
  package struct Breaker: Hashable, Sendable {
    /// The share of bad tokens in the last ``sampleCount`` responses that trips it. Default 0.5.
    package var share = 0.5
    /// The number of responses that are considered. Default 200; fewer prove nothing.
    package var sampleCount = 200

    package init() {}
  }

  /// - Parameters:
  ///   - authority: See ``authority``.
  ///   - tokens: Nil with a certificate.
  ///   - credential: `.token` exactly if there are tokens.
  package init(authority: String, tokens: ProviderTokenSource?, credential: ProviderCredentialKind) {
    precondition((tokens != nil) == (credential == .token), "a provider token belongs to a token key")
    (self.authority, self.tokens, self.credential) = (authority, tokens, credential)
  }
}

extension AppRules {
  var badTokenBreaker: BadTokenBreaker? {
    guard case .http2(let settings) = transport, let breaker = settings.breaker else { return nil }
    return BadTokenBreaker(share: breaker.share, sampleCount: breaker.sampleCount)
  }
}

extension HTTP2Settings {
  var sessionOptions: HTTP2ClientSession.Options {
    var options = HTTP2ClientSession.Options()
    options.streamLimit = min(streamLimit, RequestPolicy.streamCountLimit)
    return options
  }
}
