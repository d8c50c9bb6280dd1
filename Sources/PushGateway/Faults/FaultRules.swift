internal import PushTransport
package import PushWire

/// The faults of a simulated gateway: for all apps, and the differences for some.
///
/// As a file (see ``init(_:)``); every key is optional:
/// ```yaml
/// # These three at the top level only.
/// environment: production     # or sandbox: which certificates the service accepts
/// handshake-delay: 200ms      # before each TLS handshake
/// latency: 50ms               # round trip of every connection, TCP's handshake included
/// # All that follows may also stand under an app, where it replaces the same key.
/// refuse:                     # the first entry that matches decides
///   - tokens: [<hex>, …]
///     prefixes: [<hex digits>, …]
///     every: 1000
///     status: 8
///     connections: 3          # on the app's first 3 connections only
/// poison: { tokens: […] }     # ends the connection silently; keys as above except status
/// answer-delay: 200ms
/// answer-identifier: real     # or zero
/// probe-identifier: real      # or zero
/// shutdown: { after: 1000, connections: 2 }   # status 10 after 1000 accepted frames
/// close: { after: 1000 }      # a silent close; after: 0 = right after the handshake
/// reset: { after: 1000 }      # RST
/// stop-reading: { after: 1000, for: 2s }
/// refuse-certificate: { connections: 2 }      # or true
/// feedback: [ { token: <hex>, timestamp: 1400000000 } ]
/// payload-limits: { simple: 256, enhanced: 256, framed: 2048 }
/// token-length: 32            # or any; for HTTP/2 too
/// http2: { … }                # the HTTP/2 service: see ServiceFaults
/// apps:
///   com.example.news: { answer-delay: 0ms }
/// ```
package struct FaultRules: Hashable, Sendable {
  /// The faults of every app that is not listed in ``apps``.
  package var common = Faults()
  /// By topic. Each entry is complete; nothing is inherited from ``common``.
  package var apps: [String: Faults] = [:]
  /// Settings of the HTTP/2 service as a whole.
  package var service = ServiceSettings()
  /// How long each TLS handshake is delayed.
  package var handshakeDelay = Duration.zero
  /// The service is the sandbox, not production.
  package var isSandbox = false
  /// The round-trip time between every client and every service; see ``LatencyHandler``.
  package var latency = Duration.zero
  /// False: payloads need not be JSON objects. Not a fault and not in the file: for measurements
  /// with senders whose payload is not JSON.
  package var checksJSON = true

  package init() {}

  package func faults(forTopic topic: String) -> Faults { apps[topic] ?? common }

  /// Whether a certificate with these environments is only for the other one. A certificate without
  /// environments is for both.
  package func isForOtherEnvironment(_ environments: Set<PushEnvironment>) -> Bool {
    !environments.isEmpty && !environments.contains(isSandbox ? .sandbox : .production)
  }

  /// Whether a certificate of any app is refused.
  var refusesCertificates: Bool {
    common.refuseCertificate != nil || apps.values.contains { $0.refuseCertificate != nil }
  }
}

/// The faults of one app. By default there are none.
package struct Faults: Hashable, Sendable {
  /// The first entry that matches a frame decides.
  package var refuse: [Refuse] = []
  /// Frames that end the connection without an error response, whatever their command. Checked
  /// before ``refuse``.
  package var poison: [Selection] = []
  /// How long each error response is delayed, and the close that stands for one after command 0.
  package var answerDelay = Duration.zero
  package var namesRefusedFrame = true
  package var namesProbe = true
  package var shutDown: Breakpoint?
  /// The stream ends without an error response. `after` 0: right after the handshake, as Apple's
  /// gateway does with a certificate for the other environment.
  package var close: Breakpoint?
  package var reset: Breakpoint?
  package var stopReading: Pause?
  package var refuseCertificate: CertificateRefusal?
  /// What the feedback service delivers, once.
  package var feedback: [FeedbackTuple] = []
  /// The feedback service ends its connections without close_notify after this many tuples. Not in
  /// the file: for tests of readers.
  package var feedbackCut: Int?
  package var limits = DecoderLimits()
  /// The faults of the HTTP/2 service. Of the others, only ``refuseCertificate`` and the token
  /// length in ``limits`` apply there.
  package var http2 = ServiceFaults()

  package init() {}
}

extension Faults {
  /// Selects frames: those that match `tokens`, `prefixes` or `every`.
  package struct Selection: Hashable, Sendable {
    package var tokens: Set<TokenBytes> = []
    /// The first hexadecimal digits of a token, in lower case.
    package var prefixes: [String] = []
    /// Every n-th frame of each connection, counting only frames that keep the protocol's rules.
    package var every: Int?
    /// Only on the app's first connections; nil: on all.
    package var connections: Int?

    package init(tokens: Set<TokenBytes> = [], prefixes: [String] = [], every: Int? = nil, connections: Int? = nil) {
      (self.tokens, self.prefixes, self.every, self.connections) = (tokens, prefixes, every, connections)
    }
  }

  package struct Refuse: Hashable, Sendable {
    package var selection: Selection
    package var status: GatewayStatus

    package init(_ selection: Selection, status: GatewayStatus = .invalidToken) {
      (self.selection, self.status) = (selection, status)
    }
  }

  /// An event that happens once for each connection, after a number of accepted frames. When
  /// several are due at one frame, the first of reset, close, shutdown, stop-reading happens.
  package struct Breakpoint: Hashable, Sendable {
    package var after: Int
    /// Only on the app's first connections; nil: on all.
    package var connections: Int?

    package init(after: Int, connections: Int? = nil) { (self.after, self.connections) = (after, connections) }
  }

  package struct Pause: Hashable, Sendable {
    package var breakpoint: Breakpoint
    package var duration: Duration

    package init(_ breakpoint: Breakpoint, duration: Duration) {
      (self.breakpoint, self.duration) = (breakpoint, duration)
    }
  }

  package struct CertificateRefusal: Hashable, Sendable {
    /// Only at the app's first attempts to connect; nil: at all.
    package var connections: Int?

    package init(connections: Int? = nil) { self.connections = connections }
  }
}
