package import PushWire

/// What the HTTP/2 service does wrong on purpose to one app; fresh, it is a service as Apple's documents describe it.
///
/// In a rules file, under `http2:` at the top and under an app, where each key replaces the same key of the top:
/// ```yaml
/// http2:
///   # these five at the top only
///   strict: true                    # refuses what Apple lets pass: see ServiceSettings
///   clock-offset: -90m              # the service's clock less the real one
///   expire-token-after: 30s         # a provider token that the service has known for longer counts as expired
///   idle-limit: 1h                  # GOAWAY with IdleTimeout on a connection where nothing has arrived for so long
///   keys: [ { file: AuthKey.p8, key-id: ABC123DEFG, team-id: DEF123GHIJ, topics: [com.example.news] } ]
///   # the first entry that matches decides; status and, for 410, timestamp follow from the reason unless they are given
///   refuse:
///     - { prefixes: [dead], reason: BadDeviceToken }
///     - { tokens: [<hex>], reason: Unregistered, timestamp: 1700000000000 }
///     - { every: 100, reason: TooManyRequests, times: 2 }     # each token at most twice
///   bursts: { every: 1000, length: 50, reason: ServiceUnavailable }   # the last 50 of each 1000 requests of a connection
///   no-answer: { every: 100, taken: true }                            # taken or not, the stream stays open
///   reset: { every: 50, code: 7, taken: false }                       # RST_STREAM, 7 = REFUSED_STREAM
///   delay: { fixed: 20ms }          # of every answer; or { uniform: 5ms, to: 50ms }, or { exponential: 20ms }
///   stream-limit: 1000
///   first-stream-limit: 1           # until the first valid request; default: 1 with tokens, stream-limit with certificates
///   error-stream-limit: 1           # after a 4xx, until the next request that is taken
///   limits: [ { after: 500, to: 5 }, { after: 600, to: 1000 } ]
///   goaway: { after: 1000, connections: 2, reason: Shutdown, code: 0 }  # requests behind the 1000th are not processed
///   drain: { after: 1000, answers: 100 }      # then so many times 503 Shutdown, then GOAWAY
///   cut: { after: 1000, taken: true, how: reset }   # or how: close; with the 1000th request, taken or not
///   poison: { prefixes: [dead], taken: false, how: close }  # a request at which the connection is cut, without a GOAWAY
///   outage: { from: 5s, for: 15s, reason: ServiceUnavailable }  # all requests are refused so; counted from the app's first connection
///   garbage: { after: 0, connections: 3 }     # bytes that are no HTTP/2, then the end; after: 0 = instead of SETTINGS
///   broadcast: false                # FeatureNotEnabled
/// ```
package struct ServiceFaults: Hashable, Sendable {
  package var refuse: [Refuse] = []
  package var bursts: [Burst] = []
  package var noAnswer: [Silence] = []
  package var reset: [Reset] = []
  package var delay: Delay?
  /// SETTINGS_MAX_CONCURRENT_STREAMS.
  package var streamLimit = 1000
  /// Nil: one on connections without a certificate, otherwise ``streamLimit``.
  package var firstStreamLimit: Int?
  package var errorStreamLimit: Int?
  package var limits: [LimitChange] = []
  package var goAway: GoAway?
  package var drain: Drain?
  package var cut: [Cut] = []
  package var poison: [Poison] = []
  package var outage: Outage?
  package var garbage: Faults.Breakpoint?
  package var allowsBroadcast = true

  package init() {}

  /// The stream limit at the beginning of a connection.
  func firstLimit(hasCertificate: Bool) -> Int { min(firstStreamLimit ?? (hasCertificate ? streamLimit : 1), streamLimit) }
}

extension ServiceFaults {
  package struct Refuse: Hashable, Sendable {
    package var selection: Faults.Selection
    package var refusal: ServiceRefusal
    /// Milliseconds since 1970, with 410 only; nil: when the service started.
    package var timestamp: Int64?
    /// Each token at most so often, over all connections; nil: always.
    package var times: Int?

    package init(_ selection: Faults.Selection, _ refusal: ServiceRefusal, timestamp: Int64? = nil, times: Int? = nil) {
      self.selection = selection
      self.refusal = refusal
      self.timestamp = timestamp
      self.times = times
    }

    package init(_ selection: Faults.Selection, _ reason: ProviderReason = .badDeviceToken, times: Int? = nil) {
      self.init(selection, ServiceRefusal(reason), times: times)
    }
  }

  /// The last `length` of each `every` requests of a connection are refused.
  package struct Burst: Hashable, Sendable {
    package var every: Int
    package var length: Int
    package var refusal: ServiceRefusal
    /// Only on the app's first connections; nil: on all.
    package var connections: Int?

    package init(every: Int, length: Int, _ refusal: ServiceRefusal = ServiceRefusal(.serviceUnavailable), connections: Int? = nil) {
      self.every = every
      self.length = length
      self.refusal = refusal
      self.connections = connections
    }
  }

  package struct Silence: Hashable, Sendable {
    package var selection: Faults.Selection
    package var isTaken: Bool

    package init(_ selection: Faults.Selection, isTaken: Bool) {
      self.selection = selection
      self.isTaken = isTaken
    }
  }

  package struct Reset: Hashable, Sendable {
    package var selection: Faults.Selection
    /// RFC 9113, section 7.
    package var code: UInt32
    package var isTaken: Bool

    package init(_ selection: Faults.Selection, code: UInt32 = 7, isTaken: Bool = false) {
      self.selection = selection
      self.code = code
      self.isTaken = isTaken
    }
  }

  /// How late answers are, rounded up to whole milliseconds of the clock.
  package enum Delay: Hashable, Sendable {
    case fixed(Duration)
    case uniform(Duration, Duration)
    /// With this mean; none is later than a hundred times that.
    case exponential(mean: Duration)
  }

  package struct LimitChange: Hashable, Sendable {
    package var breakpoint: Faults.Breakpoint
    package var limit: Int

    package init(_ breakpoint: Faults.Breakpoint, limit: Int) {
      self.breakpoint = breakpoint
      self.limit = limit
    }
  }

  package struct GoAway: Hashable, Sendable {
    package var breakpoint: Faults.Breakpoint
    package var code: UInt32
    /// In its debug data; nil: there is none.
    package var reason: String?

    package init(_ breakpoint: Faults.Breakpoint, code: UInt32 = 0, reason: String? = nil) {
      self.breakpoint = breakpoint
      self.code = code
      self.reason = reason
    }
  }

  package struct Drain: Hashable, Sendable {
    package var breakpoint: Faults.Breakpoint
    /// So many requests are answered with 503 Shutdown before the GOAWAY.
    package var answers: Int

    package init(_ breakpoint: Faults.Breakpoint, answers: Int) {
      self.breakpoint = breakpoint
      self.answers = answers
    }
  }

  /// A request that makes the service cut the connection.
  package struct Poison: Hashable, Sendable {
    package var selection: Faults.Selection
    /// As for ``Cut``.
    package var isTaken: Bool
    package var isReset: Bool

    package init(_ selection: Faults.Selection, isTaken: Bool = false, isReset: Bool = false) {
      self.selection = selection
      self.isTaken = isTaken
      self.isReset = isReset
    }
  }

  /// A time in which every request is refused.
  package struct Outage: Hashable, Sendable {
    /// Since the app's first connection.
    package var from: Duration
    package var length: Duration
    package var refusal: ServiceRefusal

    package init(from: Duration = .zero, length: Duration, _ refusal: ServiceRefusal = ServiceRefusal(.serviceUnavailable)) {
      self.from = from
      self.length = length
      self.refusal = refusal
    }
  }

  package struct Cut: Hashable, Sendable {
    package var breakpoint: Faults.Breakpoint
    /// Whether the request at which it happens is taken; it is not answered either way.
    package var isTaken: Bool
    /// True: RST, and answers that were on their way are lost. False: the stream ends after them.
    package var isReset: Bool

    package init(_ breakpoint: Faults.Breakpoint, isTaken: Bool = true, isReset: Bool = true) {
      self.breakpoint = breakpoint
      self.isTaken = isTaken
      self.isReset = isReset
    }
  }
}

/// What holds for the HTTP/2 service as a whole.
package struct ServiceSettings: Hashable, Sendable {
  /// Refuses what clients in production do and Apple lets pass: no ALPN, signatures in DER, `iat` with a fraction, an `apns-id` in upper case.
  package var isStrict = false
  /// The service's clock less the real one.
  package var clockOffset = Duration.zero
  package var expireTokenAfter: Duration?
  /// After so long without a byte a connection gets a GOAWAY that says IdleTimeout.
  package var idleLimit = Duration.seconds(2 * 60 * 60)
  package var keys: [KeyFile] = []

  package init() {}

  /// A key that tokens are verified by: a `.p8` file, or a public key in PEM.
  package struct KeyFile: Hashable, Sendable {
    package var file: String
    package var keyIdentifier: String
    package var teamIdentifier: String
    /// Nil: a team's key.
    package var topics: Set<String>?

    package init(file: String, keyIdentifier: String, teamIdentifier: String, topics: Set<String>? = nil) {
      self.file = file
      self.keyIdentifier = keyIdentifier
      self.teamIdentifier = teamIdentifier
      self.topics = topics
    }
  }
}
