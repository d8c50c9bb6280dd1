public import Carillon
internal import PushGateway
internal import PushWire

/// What a simulated gateway does wrong on purpose.
///
/// Several are joined by an array literal. Of rules that match one notification the first decides.
///
/// ```swift
/// let faults: SimulatedFaults = [
///   .refuse(prefix: "dead", as: .unregistered), .latency(.milliseconds(50)),
/// ]
/// try await withSimulator(apps: ["com.example.news"], faults: faults) { simulator in
///   let app = try simulator.deployment.app("com.example.news")
///   _ = try await app.send(PushNotification(alert: "Hello"), to: token)
/// }
/// ```
public struct SimulatedFaults: Sendable, ExpressibleByArrayLiteral {
  private let apply: [@Sendable (inout FaultRules) -> Void]

  private init(_ apply: @escaping @Sendable (inout FaultRules) -> Void) { self.apply = [apply] }

  /// Joins faults.
  public init(arrayLiteral elements: SimulatedFaults...) { apply = elements.flatMap(\.apply) }

  /// A gateway as Apple's documents describe it.
  public static let none: SimulatedFaults = []

  var rules: FaultRules {
    var rules = FaultRules()
    for change in apply { change(&rules) }
    return rules
  }

  // MARK: Notifications

  /// Refuses notifications to device tokens that begin with these digits.
  ///
  /// - Parameters:
  ///   - prefix: hexadecimal digits in lower case.
  ///   - reason: how. Over the binary protocol, whose gateways know fewer reasons, the nearest one.
  ///   - times: each token at most so often (HTTP/2 only). Default nil: always.
  public static func refuse(prefix: String, as reason: Reason, times: Int? = nil) -> SimulatedFaults {
    refuse(Faults.Selection(prefixes: [prefix]), reason, times)
  }

  /// Refuses notifications to these device tokens; see ``refuse(prefix:as:times:)``.
  public static func refuse(
    tokens: some Sequence<DeviceToken>, as reason: Reason, times: Int? = nil
  ) -> SimulatedFaults { refuse(Faults.Selection(tokens: Set(tokens.map(\.gatewayToken))), reason, times) }

  /// Refuses every n-th notification of each connection; see ``refuse(prefix:as:times:)``.
  ///
  /// With `times: 1` and ``Reason/serviceUnavailable`` it is a service that puts off a share of its
  /// notifications.
  public static func refuse(every count: Int, as reason: Reason, times: Int? = nil) -> SimulatedFaults {
    refuse(Faults.Selection(every: count), reason, times)
  }

  private static func refuse(_ selection: Faults.Selection, _ reason: Reason, _ times: Int?) -> SimulatedFaults {
    SimulatedFaults { rules in
      rules.common.refuse.append(Faults.Refuse(selection, status: reason.status))
      rules.common.http2.refuse.append(ServiceFaults.Refuse(selection, reason.provider, times: times))
    }
  }

  /// Delays every answer by this time.
  public static func answerDelay(_ duration: Duration) -> SimulatedFaults {
    SimulatedFaults { rules in
      rules.common.answerDelay = duration
      rules.common.http2.delay = .fixed(duration)
    }
  }

  // MARK: Connections

  /// Closes connections without an error response or GOAWAY after this many accepted notifications.
  ///
  /// The sender cannot know which of those in flight have arrived.
  ///
  /// - Parameters:
  ///   - count: 0 with the binary protocol is right after the handshake; with HTTP/2 it counts as
  ///     1.
  ///   - connections: only on the app's first connections. Default nil: on all.
  public static func close(after count: Int, connections: Int? = nil) -> SimulatedFaults {
    SimulatedFaults { rules in
      rules.common.close = Faults.Breakpoint(after: count, connections: connections)
      let breakpoint = Faults.Breakpoint(after: max(1, count), connections: connections)
      rules.common.http2.cut.append(ServiceFaults.Cut(breakpoint))
    }
  }

  /// Closes connections in good order after this many accepted notifications: status 10 of the
  /// binary protocol, GOAWAY of HTTP/2. What follows is not processed, and the sender knows that.
  ///
  /// - Parameters:
  ///   - count: at least 1.
  ///   - connections: only on the app's first connections. Default nil: on all.
  public static func shutDown(after count: Int, connections: Int? = nil) -> SimulatedFaults {
    SimulatedFaults { rules in
      let breakpoint = Faults.Breakpoint(after: max(1, count), connections: connections)
      rules.common.shutDown = breakpoint
      rules.common.http2.goAway = ServiceFaults.GoAway(breakpoint, reason: "Shutdown")
    }
  }

  /// Refuses the certificate of the app's first connections, or of all. It has no effect on apps
  /// that use a token key.
  public static func refuseCertificate(connections: Int? = nil) -> SimulatedFaults {
    SimulatedFaults { $0.common.refuseCertificate = Faults.CertificateRefusal(connections: connections) }
  }

  /// The round trip of every connection, handshakes included. Default: that of the loopback
  /// interface. Up to 5 s.
  public static func latency(_ roundTrip: Duration) -> SimulatedFaults { SimulatedFaults { $0.latency = roundTrip } }

  /// Answers every request with 503 for a while, from the app's first connection on (HTTP/2 only).
  ///
  /// Set by ``Simulator/setFaults(_:)``, it begins with the first connection after that.
  public static func outage(for duration: Duration) -> SimulatedFaults {
    SimulatedFaults { $0.common.http2.outage = ServiceFaults.Outage(length: duration) }
  }

  /// Cuts connections to the feedback service after this many entries, without closing TLS. The
  /// reader cannot know whether that was all. Entries that were not handed out stay in the list.
  public static func cutFeedback(after count: Int) -> SimulatedFaults {
    SimulatedFaults { $0.common.feedbackCut = max(0, count) }
  }
}

extension SimulatedFaults {
  /// Why a notification is refused, in the words of the HTTP/2 provider API.
  public struct Reason: Hashable, Sendable, CustomStringConvertible {
    let provider: ProviderReason
    let status: GatewayStatus

    /// 400: no device has this token. Over the binary protocol: status 8.
    public static let badDeviceToken = Reason(provider: .badDeviceToken, status: .invalidToken)
    /// 400: the token is another app's. Over the binary protocol: status 8.
    public static let deviceTokenNotForTopic = Reason(provider: .deviceTokenNotForTopic, status: .invalidToken)
    /// 410: the device no longer has the app. Over the binary protocol: status 8.
    public static let unregistered = Reason(provider: .unregistered, status: .invalidToken)
    /// 413: the payload is too large. Over the binary protocol: status 7.
    public static let payloadTooLarge = Reason(provider: .payloadTooLarge, status: .invalidPayloadSize)
    /// 403: the credential is not accepted, so the app stops. Over the binary protocol: status 1.
    public static let forbidden = Reason(provider: .forbidden, status: .processingError)
    /// 429: too many notifications to this token; it is sent again later. Over the binary protocol:
    /// status 1, which is final.
    public static let tooManyRequests = Reason(provider: .tooManyRequests, status: .processingError)
    /// 500: not now; it is sent again later. Over the binary protocol: status 1, which is final.
    public static let internalServerError = Reason(provider: .internalServerError, status: .processingError)
    /// 503: not now; it is sent again later. Over the binary protocol: status 1, which is final.
    public static let serviceUnavailable = Reason(provider: .serviceUnavailable, status: .processingError)

    /// The service's word, such as `Unregistered`.
    public var description: String { provider.rawValue }
  }
}
