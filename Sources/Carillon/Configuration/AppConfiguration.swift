internal import PushEngine
internal import PushTransport
package import PushWire

/// One app of a deployment: its topic, how its gateway is reached, and its limits.
///
/// ```swift
/// var news = AppConfiguration(
///   id: "news", topic: "com.example.news", transport: .http2(.production),
///   credential: .tokenKey(file: "AuthKey_ABC123DEFG.p8", teamID: "DEF123GHIJ"))
/// news.rateLimit = 5_000
/// ```
///
/// Everything but the four arguments has a default that works. The defaults are those of the
/// configuration file.
public struct AppConfiguration: Hashable, Sendable {
  /// Names the app within its deployment: letters, digits, `.`, `_` and `-`.
  public var id: String
  /// The app's bundle identifier, which a deployment demands. Over HTTP/2 `apns-topic` is made of
  /// it. Over the binary protocol the certificate decides about the topic.
  public var topic: String?
  /// What is spoken with the gateway, and with which environment.
  public var transport: Transport
  /// How the app proves to the gateway who it is.
  public var credential: Credential
  /// Where to connect. Default nil: Apple's gateway for the transport and the environment. Apple
  /// switched its binary gateways off in 2021.
  public var gateway: Gateway?
  /// The binary protocol's feedback service. Default nil: Apple's, or port 2196 of ``gateway``.
  public var feedbackService: Gateway?
  /// The service that manages broadcast channels (HTTP/2). Default nil: Apple's for the
  /// environment, unless ``gateway`` is set.
  public var channelService: Gateway?
  /// A PEM file with the authorities that the gateway's certificate is checked against. Default
  /// nil: the system's.
  public var trustedAuthorities: String?
  /// The way to the gateway and the feedback service. Default nil: they are connected to directly.
  public var proxy: Proxy?
  /// The push type of notifications that set none (HTTP/2). Default
  /// ``PushNotification/PushType/alert``.
  public var pushType = PushNotification.PushType.alert
  /// How many connections there may be, within 1…1000. The first number is kept open, more are
  /// added while they help. Default 1…8.
  public var connections = AppConfiguration.engine.connections
  /// New connections per minute, all together, from 1 to 1,000,000. Default nil: 3,000 for Apple's
  /// gateways, 60,000 for any other.
  public var connectionsPerMinute: Int?
  /// Notifications per second. Default nil: no limit.
  public var rateLimit: Double?
  /// Its part of the processor when several apps have more to send than it manages: one with weight
  /// 3 sends three times the bytes of one with weight 1. From 1 to 100. Default 1.
  public var weight = AppConfiguration.engine.weight
  /// How long the app keeps trying while nothing gets through at all, before it stops; see
  /// ``DeploymentEvent/Kind-swift.enum/stopped(reason:)``. From one second to a week. Default 15
  /// minutes.
  public var patience = AppConfiguration.engine.patience
  /// How long a notification may wait to be sent, such as in an outage; then it has
  /// ``PushOutcome/expired``. After a restart the time begins anew. From one second to 30 days.
  /// Default 30 days.
  public var maxAge = AppConfiguration.engine.maxAge
  /// How many connections may end around one notification, or how many "not now" it may get, before
  /// it is given up. From 1 to 1,000. Default 5.
  public var attempts = AppConfiguration.engine.policy.attempts
  /// What becomes of notifications that may have arrived when their connection ended. Default
  /// ``UnknownPolicy/resend``.
  public var onUnknown = UnknownPolicy(wire: AppConfiguration.engine.policy.onUnknown)
  /// When frames or requests are written. The default suits campaigns and single sends alike.
  public var batching = Batching()
  /// How much may be in flight on one connection.
  public var window = Window()
  /// How the binary protocol, which is silent on success, learns that notifications were accepted.
  public var settling = Settling()
  /// What concerns HTTP/2 alone.
  public var http2 = HTTP2()

  /// Where the defaults above and below come from.
  private static let engine = AppRules(id: "")

  /// Describes an app.
  ///
  /// - Parameters:
  ///   - id: its name within the deployment.
  ///   - topic: its bundle identifier. A deployment demands one.
  ///   - transport: what is spoken with the gateway, and with which environment.
  ///   - credential: how the app proves who it is.
  public init(id: String, topic: String?, transport: Transport, credential: Credential) {
    (self.id, self.topic, self.transport, self.credential) = (id, topic, transport, credential)
  }
}

extension AppConfiguration {
  /// What is spoken with the gateway.
  public enum Transport: Hashable, Sendable {
    /// The HTTP/2 provider API: each notification is a request with an answer of its own.
    case http2(Environment = .production)
    /// The binary provider protocol: frames, and no answer but to the first that is refused.
    case binary(Environment = .production, frames: FrameVersion = .two)

    /// It is HTTP/2.
    public var isHTTP2: Bool { if case .http2 = self { true } else { false } }

    /// How it is named in files and flags.
    package enum Name: String, Hashable, Sendable, CaseIterable, Codable { case binary, http2 }

    package init(_ name: Name, _ environment: PushEnvironment = .production) {
      let environment = Environment(wire: environment)
      self =
        switch name {
        case .binary: .binary(environment)
        case .http2: .http2(environment)
        }
    }

    package var name: Name { isHTTP2 ? .http2 : .binary }
  }

  /// Which builds of the app it reaches.
  public struct Environment: Hashable, Sendable, CustomStringConvertible {
    let wire: PushEnvironment

    /// The App Store's, and TestFlight's.
    public static let production = Environment(wire: .production)
    /// Those that Xcode installs.
    public static let sandbox = Environment(wire: .sandbox)

    /// `production` or `sandbox`.
    public var description: String { wire.rawValue }
  }

  /// The layout of the binary protocol's frames: the command byte.
  public struct FrameVersion: Hashable, Sendable, CustomStringConvertible {
    let wire: PushWire.FrameVersion

    /// Token and payload alone: no refusal says which notification it is about.
    public static let zero = FrameVersion(wire: .simple)
    /// With an identifier and an expiration date; payloads of 256 bytes.
    public static let one = FrameVersion(wire: .enhanced)
    /// With a priority as well; payloads of 2,048 bytes.
    public static let two = FrameVersion(wire: .framed)

    /// The command byte: `0`, `1` or `2`.
    public var description: String { "\(wire.rawValue)" }
  }

  /// A host and a port.
  public struct Gateway: Hashable, Sendable, CustomStringConvertible {
    /// A name or an address. The server's certificate must be for it.
    public var host: String
    /// From 1 to 65535.
    public var port: Int

    /// Names a gateway.
    public init(host: String, port: Int) { (self.host, self.port) = (host, port) }

    package init(_ endpoint: Endpoint) { self.init(host: endpoint.host, port: endpoint.port) }

    package var endpoint: Endpoint { Endpoint(host: host, port: port) }

    /// Such as `localhost:2197`.
    public var description: String { endpoint.description }
  }

  /// How an app proves to its gateway who it is.
  ///
  /// Files are read when a deployment is made, when an app is added to it, and when a credential is
  /// replaced. Those that hold a private key or a passphrase must be their owner's alone (`chmod
  /// 600`). Credentials in memory are not written to a file, a journal or a log.
  public struct Credential: Hashable, Sendable {
    package let settings: AppCredential

    package init(_ settings: AppCredential) { self.settings = settings }

    /// A certificate with its key, for both transports.
    ///
    /// - Parameters:
    ///   - file: PEM, or PKCS#12, or a DER certificate if there is a separate key.
    ///   - key: a PEM file with the private key. Default nil: `file` holds it.
    ///   - passphraseFile: a file whose first line is the passphrase. Default nil: there is none.
    public static func certificate(file: String, key: String? = nil, passphraseFile: String? = nil) -> Credential {
      var files = CredentialFiles(certificate: file, key: key)
      files.passphraseFile = passphraseFile
      return Credential(.certificate(files))
    }

    /// A certificate with its key from memory, in PEM, for both transports.
    ///
    /// - Parameters:
    ///   - pem: the certificate and its chain, and the private key unless `key` holds it.
    ///   - key: the private key in PEM. Default nil: `pem` holds it.
    ///   - passphrase: of the private key. Default nil: it is not encrypted.
    public static func certificate(pem: [UInt8], key: [UInt8]? = nil, passphrase: String? = nil) -> Credential {
      memory(CredentialBytes(certificate: pem, key: key, passphrase: passphrase.map { Array($0.utf8) }))
    }

    /// A certificate with its key from memory, in a PKCS#12 container, for both transports.
    ///
    /// - Parameters:
    ///   - pkcs12: the content of a `.p12` file.
    ///   - passphrase: of the container. Default nil: there is none.
    public static func certificate(pkcs12: [UInt8], passphrase: String? = nil) -> Credential {
      memory(CredentialBytes(certificate: pkcs12, passphrase: passphrase.map { Array($0.utf8) }))
    }

    private static func memory(_ bytes: CredentialBytes) -> Credential {
      Credential(.certificateInMemory(Secret(bytes)))
    }

    /// A key from memory that signs provider tokens (HTTP/2 only).
    ///
    /// - Parameters:
    ///   - pem: the text of the `.p8` file from the developer account.
    ///   - keyID: the key's ten characters.
    ///   - teamID: the team's ten characters.
    public static func tokenKey(pem: String, keyID: String, teamID: String) -> Credential {
      let secret = Secret(Array(pem.utf8))
      return Credential(.tokenKeyInMemory(secret, keyIdentifier: keyID, teamIdentifier: teamID))
    }

    /// A key that signs provider tokens (HTTP/2 only).
    ///
    /// - Parameters:
    ///   - file: the `.p8` file from the developer account.
    ///   - keyID: the key's ten characters. Default nil: what the file's name says,
    ///     `AuthKey_ABC123DEFG.p8`.
    ///   - teamID: the team's ten characters.
    public static func tokenKey(file: String, keyID: String? = nil, teamID: String) -> Credential {
      let identifier = keyID ?? TokenKeyFile.keyIdentifier(inNameOf: file) ?? ""
      return Credential(.tokenKey(TokenKeyFile(file: file, keyIdentifier: identifier, teamIdentifier: teamID)))
    }
  }

  /// What becomes of notifications that may have arrived when their connection ended.
  public struct UnknownPolicy: Hashable, Sendable, CustomStringConvertible {
    package let wire: LanePolicy.OnUnknown

    package init(wire: LanePolicy.OnUnknown) { self.wire = wire }

    /// They are sent again. Some may arrive twice: ``CampaignAccount/possibleDuplicates``.
    public static let resend = UnknownPolicy(wire: .resend)
    /// They are not sent again, and end as ``PushOutcome/held``.
    public static let hold = UnknownPolicy(wire: .hold)
    /// They are not sent again, and end as ``PushOutcome/unknown``.
    public static let drop = UnknownPolicy(wire: .drop)

    /// `resend`, `hold` or `drop`.
    public var description: String { wire.rawValue }
  }

  /// When frames or requests are written.
  public struct Batching: Hashable, Sendable {
    /// A batch is written at once when this many bytes wait, from 4 KiB to 16 MiB. Default 64 KiB.
    public var byteCount = AppConfiguration.engine.batchByteCount
    /// The longest that a notification waits for its batch, up to 10 s. Default 5 ms. While the
    /// socket is idle, none waits.
    public var delay = AppConfiguration.engine.batchDelay

    /// The default.
    public init() {}
  }

  /// How much may be in flight on one connection.
  public struct Window: Hashable, Sendable {
    /// Notifications, from 64 to 16,777,216. Default 262,144.
    public var notifications = AppConfiguration.engine.policy.windowCount
    /// Bytes of memory, from 64 KiB to 1 GiB. Default 16 MiB.
    public var bytes = AppConfiguration.engine.policy.ringBlockCount * NotificationRing.blockByteCount

    /// The default.
    public init() {}
  }

  /// How the binary protocol learns that notifications were accepted.
  public struct Settling: Hashable, Sendable {
    /// A notification counts as accepted when its connection has stayed open this long without an
    /// answer. From 10 ms to one hour. Default 5 s.
    public var quiet = AppConfiguration.engine.policy.quiet
    /// At the end, send a notification that the gateway must refuse: its answer proves that all
    /// before it were accepted. Default true.
    public var usesProbes = AppConfiguration.engine.policy.confirm == .probe

    /// The default.
    public init() {}
  }

  /// What concerns HTTP/2 alone.
  public struct HTTP2: Hashable, Sendable {
    /// How long an answer may take before the notification counts as one that may have arrived.
    /// From 100 ms to 10 minutes. Default 30 s.
    public var requestTimeout = RequestPolicy().timeout
    /// Requests in flight on one connection, at most; the service's own limit counts too. Default
    /// 1,000.
    public var concurrentRequests = 1_000
    /// After this idle time of a connection, a PING is sent. From one second to one hour. Default
    /// one hour.
    public var pingInterval = RequestPolicy().pingInterval

    /// The default.
    public init() {}
  }
}
