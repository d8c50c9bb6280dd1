/// Where the database is, and who asks.
package struct PostgreSQLSettings: Hashable, Sendable {
  package struct Host: Hashable, Sendable {
    /// A name, an address, or the folder of a Unix socket.
    package var name: String
    package var port: Int

    package init(name: String, port: Int = 5432) { (self.name, self.port) = (name, port) }

    package var isLocal: Bool { name.hasPrefix("/") || ["localhost", "127.0.0.1", "::1"].contains(name) }
    package var text: String { name.hasPrefix("/") ? "\(name)/.s.PGSQL.\(port)" : "\(name):\(port)" }
  }

  /// As libpq calls them.
  package enum Encryption: String, Hashable, Sendable, CaseIterable {
    case disable, require
    case verifyAuthority = "verify-ca"
    case verifyFull = "verify-full"
  }

  /// The primary and its standbys, in any order.
  package var hosts: [Host]
  package var database: String
  package var user: String
  /// Whose first line is the password. Nil: without one.
  package var passwordFile: String?
  /// Nil: `verify-full`, and none for this machine.
  package var encryption: Encryption?
  /// A file with the certificates of authorities; nil: those of the system.
  package var authorities: String?
  /// 4…64.
  package var connectionCount = 8
  /// What this machine is called among those that use the database.
  package var node: String
  /// How long it may be silent until others take its place.
  package var lease = NodeFacts.usualLease
  /// The name of the journal whose outcomes are written. Nil: as the machine is called.
  package var journal: String?
  /// A service may use the database at the same time.
  package var isVisitor = false

  package init(hosts: [Host], database: String, user: String, node: String) {
    (self.hosts, self.database, self.user, self.node) = (hosts, database, user, node)
  }

  /// Under which outcomes are written and counted.
  package var writer: String { journal ?? node }

  package var asVisitor: PostgreSQLSettings {
    var settings = self
    settings.isVisitor = true
    return settings
  }

  /// For messages. Without the password.
  package var name: String { hosts.map(\.text).joined(separator: ",") + "/\(database)" }
}
