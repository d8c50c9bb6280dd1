package import Carillon
package import Logging
package import PushTransport

/// What a configuration file says about `carillon serve`: its apps and its journal, what it listens
/// on, and where it remembers things.
package struct ServerConfiguration: Hashable, Sendable {
  package struct API: Hashable, Sendable {
    package var listen = Listen(host: "127.0.0.1", port: 8480)
    /// Nil: no TLS, on loopback addresses only.
    package var certificate: CredentialFiles?
    package var maxBody = 16 << 20
    package var maxConnections = 1024
    /// Connections of one address. Nil: three quarters of all, but at least 16.
    package var maxAddressConnections: Int?
    /// Connections that have shown no valid key. Nil: a quarter of all, but at least 16.
    package var maxKeylessConnections: Int?
    package var idleTimeout = Duration.seconds(120)
    /// Requests of one key in a second; nil: any number.
    package var rateLimit: Double?
    /// Names, in lower case, that show the dashboard, besides addresses and `localhost`.
    package var hosts: Set<String> = []

    package init() {}

    /// Connections that a share has however few there are.
    private static let least = 16

    package var addressConnections: Int {
      maxAddressConnections ?? max(maxConnections / 4 * 3, min(maxConnections, Self.least))
    }
    /// At most three quarters: the rest is for those with keys.
    package var keylessConnections: Int {
      maxKeylessConnections ?? max(maxConnections / 4, min(Self.least, max(1, maxConnections / 4 * 3)))
    }
  }

  package struct Admin: Hashable, Sendable {
    package var listen = Listen(host: "127.0.0.1", port: 8481)

    package init() {}
  }

  package struct Log: Hashable, Sendable {
    package enum Format: String, Hashable, Sendable, CaseIterable { case text, json }

    package var level = Logger.Level.info
    package var format = Format.text

    package init() {}
  }

  package struct Shutdown: Hashable, Sendable {
    /// How long readiness is denied before the listener closes.
    package var announce = Duration.zero
    /// How long notifications in flight may take to get their outcome.
    package var drain = Duration.seconds(10)

    package init() {}
  }

  package var journal: JournalConfiguration
  /// At least one, each with an id of its own, in the order of the file.
  package var tenants: [Tenant]
  package var api = API()
  package var admin = Admin()
  package var store = StoreConfiguration.file(nil)
  package var shutdown = Shutdown()
  package var log = Log()
  /// Nil: no client is served over the binary protocol.
  package var bridge: BridgeConfiguration?
  /// How long outcomes and batches can be asked for after they ended.
  package var retention = Duration.seconds(7 * 86_400)

  package init(journal: JournalConfiguration, tenants: [Tenant]) { (self.journal, self.tenants) = (journal, tenants) }
}

package struct Listen: Hashable, Sendable, CustomStringConvertible {
  package var host: String
  /// 0: any free one.
  package var port: Int

  package init(host: String, port: Int) { (self.host, self.port) = (host, port) }

  package var description: String { "\(host.contains(":") ? "[\(host)]" : host):\(port)" }
}
