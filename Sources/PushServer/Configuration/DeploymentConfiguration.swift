package import PushTransport
package import PushWire

/// What one YAML file says about a deployment: its apps, and the journal they share. Names and defaults are those of the file.
package struct DeploymentConfiguration: Hashable, Sendable {
  package var journal = JournalConfiguration()
  /// At least one, each with an `id` of its own, in the order of the file.
  package var apps: [AppSettings] = []

  package init() {}
}

/// Where everything is written down that the next process must know, if this one ends unexpectedly.
package struct JournalConfiguration: Hashable, Sendable {
  package enum Sync: String, Hashable, Sendable, CaseIterable { case always, interval, never }

  /// Nil: none; `carillon send` then sends without a journal.
  package var directory: String?
  package var sync = Sync.interval
  package var interval = Duration.milliseconds(10)

  package init() {}
}

package struct AppSettings: Hashable, Sendable, Codable {
  package enum Environment: String, Hashable, Sendable, CaseIterable, Codable { case production, sandbox }
  package enum Transport: String, Hashable, Sendable, CaseIterable, Codable { case binary, http2 }
  package enum Confirm: String, Hashable, Sendable, CaseIterable, Codable { case probe, quiet }
  package enum OnUnknown: String, Hashable, Sendable, CaseIterable, Codable { case resend, hold, drop }

  /// Letters, digits, `.`, `_` and `-`.
  package var id: String
  /// For people and for checking the certificate; the binary protocol takes the topic from the certificate.
  package var topic: String?
  package var environment = Environment.production
  /// Always binary for now: a file that asks for http2 is refused.
  package var transport = Transport.binary
  package var command = Command.framed
  package var credential: CredentialFiles
  /// Nil: Apple's for the environment, see ``gatewayOrDefault``.
  package var gateway: Endpoint?
  /// A PEM file with the authorities that the gateway's certificate is checked against; nil: the system's roots.
  package var trust: String?
  /// `connections: { min, max }`
  package var connections = 1...8
  package var batching = Batching()
  package var window = Window()
  package var settle = Settle()
  package var onUnknown = OnUnknown.resend
  package var attempts = 5
  /// Notifications per second; nil: no limit.
  package var rateLimit: Double?
  /// The app's share when several compete, relative to the others.
  package var weight = 1

  package struct Batching: Hashable, Sendable, Codable {
    package var maxBytes = 64 << 10
    package var maxDelay = Duration.milliseconds(5)
    package init() {}
  }

  package struct Window: Hashable, Sendable, Codable {
    package var notifications = 262_144
    package var bytes = 16 << 20
    package init() {}
  }

  package struct Settle: Hashable, Sendable, Codable {
    package var quiet = Duration.seconds(5)
    package var confirm = Confirm.probe
    package init() {}
  }

  package init(id: String, credential: CredentialFiles) {
    self.id = id
    self.credential = credential
  }

  /// The gateway to connect to. Apple switched its binary gateways off in 2021, so binary senders should name one.
  package var gatewayOrDefault: Endpoint {
    gateway ?? Endpoint(host: environment == .production ? "gateway.push.apple.com" : "gateway.sandbox.push.apple.com", port: 2195)
  }
}
