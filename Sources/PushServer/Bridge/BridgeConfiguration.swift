internal import Carillon
package import PushService
internal import PushTransport
internal import PushWire

/// `bridge: { … }`: the listeners for providers that speak the binary protocol.
package struct BridgeConfiguration: Hashable, Sendable {
  package enum MinimumTLS: String, Hashable, Sendable, CaseIterable, Comparable {
    case tls10 = "1.0"
    case tls11 = "1.1"
    case tls12 = "1.2"
    case tls13 = "1.3"

    package static func < (left: MinimumTLS, right: MinimumTLS) -> Bool { left.rawValue < right.rawValue }
  }

  package var listen: Listen
  /// Nil: no feedback service.
  package var feedback: Listen?
  package var certificate: String
  /// Nil: the certificate's file has it.
  package var key: String?
  /// A PEM file: authorities whose certificates say by their topic which app a client is.
  package var clientAuthority: String?
  package var minimumTLS = MinimumTLS.tls12
  package var connectionLimit = 4096
  /// New connections of one address in a second.
  package var handshakeRate = 20
  /// How long a reader of feedback may take nothing.
  package var stallTime = Duration.seconds(60)
  package var connection = BridgeConnection.Settings()

  package init(listen: Listen, certificate: String) { (self.listen, self.certificate) = (listen, certificate) }
}

extension BridgeConfiguration {
  init(_ node: YAMLNode) throws(ConfigurationError) {
    var reader = try YAMLReader(node)
    let listen = try Listen(reader.require("listen", example: "\"0.0.0.0:2195\""))
    self.init(listen: listen, certificate: try reader.require("certificate", example: "bridge.pem").filePath())
    if let value = reader.take("feedback") { feedback = try Listen(value) }
    key = try reader.take("key")?.filePath()
    clientAuthority = try reader.take("client-ca")?.filePath()
    if let value = reader.take("minimum-tls") { minimumTLS = try value.choice(MinimumTLS.self) }
    if let value = reader.take("connections") { try takeConnections(value) }
    if let value = reader.take("memory") { try takeMemory(value) }
    if let value = reader.take("conclusion") {
      connection.session.window.conclusionTime = try value.duration(in: .seconds(1) ... .seconds(600))
    }
    if let value = reader.take("payload") {
      let byteCount = try value.byteCount(in: 256...2048)
      connection.session.limits.simplePayload = byteCount
      connection.session.limits.enhancedPayload = byteCount
    }
    try reader.finish()
  }

  private mutating func takeConnections(_ node: YAMLNode) throws(ConfigurationError) {
    var reader = try YAMLReader(node)
    if let value = reader.take("max") { connectionLimit = try value.integer(in: 1...100_000) }
    if let value = reader.take("per-app") { connection.limitPerApp = try value.integer(in: 1...100_000) }
    if let value = reader.take("handshakes-per-second") { handshakeRate = try value.integer(in: 1...10_000) }
    if let value = reader.take("stalled") { stallTime = try value.duration(in: .seconds(1) ... .seconds(3600)) }
    try reader.finish()
  }

  private mutating func takeMemory(_ node: YAMLNode) throws(ConfigurationError) {
    var reader = try YAMLReader(node)
    if let value = reader.take("notifications") { connection.memory.count = try value.integer(in: 1024...16_777_216) }
    if let value = reader.take("size") { connection.memory.byteCount = try value.byteCount(in: 1 << 20...1 << 40) }
    if let value = reader.take("duration") {
      connection.memory.age = try value.duration(in: .seconds(1) ... .seconds(86_400))
    }
    try reader.finish()
  }
}
