package import PushTransport
package import PushWire

/// Everything that a simulated gateway does wrong on purpose: for all apps, and what differs for some.
///
/// As a file (see ``init(_:)``), every key optional:
/// ```yaml
/// # these three here only
/// environment: production           # or sandbox: which certificates are for this service
/// handshake-delay: 200ms            # before each TLS handshake
/// latency: 50ms                     # the round trip of every connection: half of it each way, TCP's and TLS's handshakes included
/// # all that follows may also stand under an app, where it replaces the same key
/// refuse:                           # the first entry that matches decides
///   - { tokens: [<hex>, …], prefixes: [<hex digits>, …], every: 1000, status: 8, connections: 3 }
/// poison: { tokens: […] }           # the connection ends without a packet; same keys as above but status
/// answer-delay: 200ms
/// answer-identifier: real           # or zero
/// probe-identifier: real            # or zero
/// shutdown: { after: 1000, connections: 2 }        # status 10 after 1000 accepted frames, on the first 2 connections only
/// close: { after: 1000 }            # the stream ends without a packet; after: 0 = right after the handshake
/// reset: { after: 1000 }            # RST
/// stop-reading: { after: 1000, for: 2s }
/// refuse-certificate: { connections: 2 }           # or true
/// feedback: [ { token: <hex>, timestamp: 1400000000 } ]
/// payload-limits: { simple: 256, enhanced: 256, framed: 2048 }
/// token-length: 32                  # or any; for HTTP/2 too
/// http2: { … }                      # the HTTP/2 service: see ServiceFaults
/// apps:
///   com.example.news: { answer-delay: 0ms }
/// ```
package struct FaultRules: Hashable, Sendable {
  /// What holds for every app that is not listed in ``apps``.
  package var common = Faults()
  /// By topic; complete in itself.
  package var apps: [String: Faults] = [:]
  /// What holds for the HTTP/2 service as a whole.
  package var service = ServiceSettings()
  /// How long each TLS handshake is kept waiting.
  package var handshakeDelay = Duration.zero
  /// The service is the sandbox, not production.
  package var isSandbox = false
  /// The round trip between every client and every service: see ``LatencyHandler``.
  package var latency = Duration.zero
  /// False: payloads may be anything. Not a fault, and not in the file: for measuring with senders whose payload is no JSON.
  package var checksJSON = true

  package init() {}

  package func faults(forTopic topic: String) -> Faults { apps[topic] ?? common }

  /// Whether a certificate that names these environments is for the other one alone. One that names none is for both.
  package func isForOtherEnvironment(_ environments: Set<CertificateInspection.Environment>) -> Bool {
    !environments.isEmpty && !environments.contains(isSandbox ? .sandbox : .production)
  }

  /// Whether any app's certificate is ever refused.
  var refusesCertificates: Bool { common.refuseCertificate != nil || apps.values.contains { $0.refuseCertificate != nil } }
}

/// The faults that one app meets. Fresh, it is a gateway without faults.
package struct Faults: Hashable, Sendable {
  /// The first entry that matches a frame decides.
  package var refuse: [Refuse] = []
  /// Frames that end the connection without a packet, whatever their command. Looked at before ``refuse``.
  package var poison: [Selection] = []
  /// How late each answer is, and the close that stands for one.
  package var answerDelay = Duration.zero
  package var namesRefusedFrame = true
  package var namesProbe = true
  package var shutDown: Breakpoint?
  /// The stream ends without a packet. `after` 0: at once after the handshake, as Apple's gateway does to a certificate of the wrong environment.
  package var close: Breakpoint?
  package var reset: Breakpoint?
  package var stopReading: Pause?
  package var refuseCertificate: CertificateRefusal?
  /// What the feedback service hands out, once.
  package var feedback: [FeedbackTuple] = []
  package var limits = DecoderLimits()
  /// What the app meets at the HTTP/2 service: beside ``refuseCertificate`` and the token's size in ``limits`` the only thing here that counts there.
  package var http2 = ServiceFaults()

  package init() {}
}

extension Faults {
  /// Which frames a rule is about: those that match any of the three.
  package struct Selection: Hashable, Sendable {
    package var tokens: Set<DeviceToken> = []
    /// Hexadecimal digits that a token begins with, in lower case.
    package var prefixes: [String] = []
    /// Every n-th frame of each connection, counting those that reach the rules.
    package var every: Int?
    /// Only on the app's first connections; nil: on all.
    package var connections: Int?

    package init(tokens: Set<DeviceToken> = [], prefixes: [String] = [], every: Int? = nil, connections: Int? = nil) {
      self.tokens = tokens
      self.prefixes = prefixes
      self.every = every
      self.connections = connections
    }
  }

  package struct Refuse: Hashable, Sendable {
    package var selection: Selection
    package var status: GatewayStatus

    package init(_ selection: Selection, status: GatewayStatus = .invalidToken) {
      self.selection = selection
      self.status = status
    }
  }

  /// Something that happens once per connection, after a number of accepted frames. Where several fall on one frame, the first of reset, close, shutdown, stop-reading wins.
  package struct Breakpoint: Hashable, Sendable {
    package var after: Int
    /// Only on the app's first connections; nil: on all.
    package var connections: Int?

    package init(after: Int, connections: Int? = nil) {
      self.after = after
      self.connections = connections
    }
  }

  package struct Pause: Hashable, Sendable {
    package var breakpoint: Breakpoint
    package var duration: Duration

    package init(_ breakpoint: Breakpoint, duration: Duration) {
      self.breakpoint = breakpoint
      self.duration = duration
    }
  }

  package struct CertificateRefusal: Hashable, Sendable {
    /// Only the app's first attempts; nil: all.
    package var connections: Int?

    package init(connections: Int? = nil) {
      self.connections = connections
    }
  }
}
