package import PushWire

/// The faults of the HTTP/2 service for one app. By default there are none, and the service acts as
/// Apple's documents say.
///
/// In a rules file they stand under `http2:`, at the top level and under an app. A key under an app
/// replaces the same key of the top level.
/// ```yaml
/// http2:
///   # These five at the top level only.
///   strict: true              # refuses what Apple tolerates: see ServiceSettings
///   clock-offset: -90m        # the service's clock minus the real one
///   expire-token-after: 30s   # a provider token known for longer counts as expired
///   idle-limit: 1h            # then GOAWAY with IdleTimeout
///   keys: [ { file: AuthKey.p8, key-id: ABC123DEFG, team-id: DEF123GHIJ, topics: [com.a] } ]
///   # The first entry that matches decides. By default the reason gives the status and, for 410,
///   # the timestamp.
///   refuse:
///     - { prefixes: [dead], reason: BadDeviceToken }
///     - { tokens: [<hex>], reason: Unregistered, timestamp: 1700000000000 }
///     - { every: 100, reason: TooManyRequests, times: 2 }   # each token at most twice
///   # The last 50 of each 1000 requests of a connection; connections: 2 = only on the first two.
///   bursts: { every: 1000, length: 50, reason: ServiceUnavailable }
///   no-answer: { every: 100, taken: true }          # accepted or not; the stream stays open
///   reset: { every: 50, code: 7, taken: false }     # RST_STREAM; 7 = REFUSED_STREAM
///   delay: { fixed: 20ms }    # or { uniform: 5ms, to: 50ms } or { exponential: 20ms }
///   stream-limit: 1000
///   # Until the first valid request; default: 1 with tokens, stream-limit with certificates.
///   first-stream-limit: 1
///   error-stream-limit: 1     # after a 4xx, until the next request that is accepted
///   limits: [ { after: 500, to: 5 }, { after: 600, to: 1000 } ]
///   # Requests after the 1000th are not processed.
///   goaway: { after: 1000, connections: 2, reason: Shutdown, code: 0 }
///   drain: { after: 1000, answers: 100 }            # 100 times 503 Shutdown, then GOAWAY
///   cut: { after: 1000, taken: true, how: reset }   # or how: close; at the 1000th request
///   # A request at which the connection ends without a GOAWAY.
///   poison: { prefixes: [dead], taken: false, how: close }
///   # All requests are refused. The time counts from the app's first connection.
///   outage: { from: 5s, for: 15s, reason: ServiceUnavailable }
///   # Bytes that are not HTTP/2, then the end; after: 0 = in place of SETTINGS.
///   garbage: { after: 0, connections: 3 }
///   broadcast: false          # FeatureNotEnabled
/// ```
package struct ServiceFaults: Hashable, Sendable {
  package var refuse: [Refuse] = []
  package var bursts: [Burst] = []
  package var noAnswer: [Silence] = []
  package var reset: [Reset] = []
  package var delay: Delay?
  /// SETTINGS_MAX_CONCURRENT_STREAMS.
  package var streamLimit = 1000
  /// Nil: 1 on connections without a certificate, otherwise ``streamLimit``.
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
  func firstLimit(hasCertificate: Bool) -> Int {
    min(firstStreamLimit ?? (hasCertificate ? streamLimit : 1), streamLimit)
  }
}

extension ServiceFaults {
  package struct Refuse: Hashable, Sendable {
    package var selection: Faults.Selection
    package var refusal: ServiceRefusal
    /// Milliseconds since 1970, with 410 only; nil: the time at which the service started.
    package var timestamp: Int64?
    /// How often each token is refused at most, over all connections; nil: always.
    package var times: Int?

    package init(_ selection: Faults.Selection, _ refusal: ServiceRefusal, timestamp: Int64? = nil, times: Int? = nil) {
      (self.selection, self.refusal, self.timestamp, self.times) = (selection, refusal, timestamp, times)
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

    package init(
      every: Int, length: Int, _ refusal: ServiceRefusal = ServiceRefusal(.serviceUnavailable), connections: Int? = nil
    ) {
      (self.every, self.length, self.refusal, self.connections) = (every, length, refusal, connections)
    }
  }

  package struct Silence: Hashable, Sendable {
    package var selection: Faults.Selection
    package var isTaken: Bool

    package init(_ selection: Faults.Selection, isTaken: Bool) {
      (self.selection, self.isTaken) = (selection, isTaken)
    }
  }

  package struct Reset: Hashable, Sendable {
    package var selection: Faults.Selection
    /// RFC 9113, section 7.
    package var code: UInt32
    package var isTaken: Bool

    package init(_ selection: Faults.Selection, code: UInt32 = 7, isTaken: Bool = false) {
      (self.selection, self.code, self.isTaken) = (selection, code, isTaken)
    }
  }

  /// How long responses are delayed, rounded up to whole milliseconds.
  package enum Delay: Hashable, Sendable {
    case fixed(Duration)
    case uniform(Duration, Duration)
    /// An exponential distribution with this mean, cut at a hundred times the mean.
    case exponential(mean: Duration)
  }

  package struct LimitChange: Hashable, Sendable {
    package var breakpoint: Faults.Breakpoint
    package var limit: Int

    package init(_ breakpoint: Faults.Breakpoint, limit: Int) {
      (self.breakpoint, self.limit) = (breakpoint, limit)
    }
  }

  package struct GoAway: Hashable, Sendable {
    package var breakpoint: Faults.Breakpoint
    package var code: UInt32
    /// The reason in the debug data; nil: no debug data.
    package var reason: String?

    package init(_ breakpoint: Faults.Breakpoint, code: UInt32 = 0, reason: String? = nil) {
      (self.breakpoint, self.code, self.reason) = (breakpoint, code, reason)
    }
  }

  package struct Drain: Hashable, Sendable {
    package var breakpoint: Faults.Breakpoint
    /// How many requests are answered with 503 Shutdown before the GOAWAY.
    package var answers: Int

    package init(_ breakpoint: Faults.Breakpoint, answers: Int) {
      (self.breakpoint, self.answers) = (breakpoint, answers)
    }
  }

  /// A request that makes the service cut the connection.
  package struct Poison: Hashable, Sendable {
    package var selection: Faults.Selection
    /// As for ``Cut``.
    package var isTaken: Bool
    package var isReset: Bool

    package init(_ selection: Faults.Selection, isTaken: Bool = false, isReset: Bool = false) {
      (self.selection, self.isTaken, self.isReset) = (selection, isTaken, isReset)
    }
  }

  /// A time in which every request is refused.
  package struct Outage: Hashable, Sendable {
    /// Counted from the app's first connection.
    package var from: Duration
    package var length: Duration
    package var refusal: ServiceRefusal

    package init(
      from: Duration = .zero, length: Duration, _ refusal: ServiceRefusal = ServiceRefusal(.serviceUnavailable)
    ) {
      (self.from, self.length, self.refusal) = (from, length, refusal)
    }
  }

  package struct Cut: Hashable, Sendable {
    package var breakpoint: Faults.Breakpoint
    /// Whether the request at which it happens is accepted. It is not answered in either case.
    package var isTaken: Bool
    /// True: a RST, and responses in flight are lost. False: the stream ends after them.
    package var isReset: Bool

    package init(_ breakpoint: Faults.Breakpoint, isTaken: Bool = true, isReset: Bool = true) {
      (self.breakpoint, self.isTaken, self.isReset) = (breakpoint, isTaken, isReset)
    }
  }
}

/// Settings of the HTTP/2 service as a whole.
package struct ServiceSettings: Hashable, Sendable {
  /// Refuses what Apple tolerates and clients in production do: no ALPN, signatures in DER, `iat`
  /// with a fraction, an `apns-id` in upper case.
  package var isStrict = false
  /// The service's clock minus the real one.
  package var clockOffset = Duration.zero
  package var expireTokenAfter: Duration?
  /// A connection that receives nothing for this long gets a GOAWAY with IdleTimeout.
  package var idleLimit = Duration.seconds(2 * 60 * 60)
  package var keys: [KeyFile] = []

  package init() {}

  /// A key that verifies tokens: a `.p8` file, or a public key in PEM.
  package struct KeyFile: Hashable, Sendable {
    package var file: String
    package var keyIdentifier: String
    package var teamIdentifier: String
    /// Nil: a team's key.
    package var topics: Set<String>?

    package init(file: String, keyIdentifier: String, teamIdentifier: String, topics: Set<String>? = nil) {
      (self.file, self.keyIdentifier) = (file, keyIdentifier)
      (self.teamIdentifier, self.topics) = (teamIdentifier, topics)
    }
  }
}
