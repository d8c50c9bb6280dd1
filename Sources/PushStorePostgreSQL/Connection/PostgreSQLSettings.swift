internal import CPostgreSQL
internal import Glibc
internal import PushStore

/// Where the database is, and who asks.
package struct PostgreSQLSettings: Hashable, Sendable {
  package struct Host: Hashable, Sendable {
    /// A name, an address, or the folder of a Unix socket.
    package var name: String
    package var port: Int

    package init(name: String, port: Int = 5432) { (self.name, self.port) = (name, port) }

    var isLocal: Bool { name.hasPrefix("/") || ["localhost", "127.0.0.1", "::1"].contains(name) }
    var text: String { name.hasPrefix("/") ? "\(name)/.s.PGSQL.\(port)" : "\(name):\(port)" }
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
  /// Nil: without one.
  package var password: String?
  /// Nil: `verify-full`, and none for this machine.
  package var encryption: Encryption?
  /// A file with the certificates of authorities; nil: those of the system.
  package var authorities: String?
  /// 2…64.
  package var connectionCount = 8
  /// What this machine is called among those that use the database.
  package var node: String

  package init(hosts: [Host], database: String, user: String, node: String) {
    (self.hosts, self.database, self.user, self.node) = (hosts, database, user, node)
  }

  /// For messages. Without the password.
  package var name: String { hosts.map(\.text).joined(separator: ",") + "/\(database)" }

  fileprivate func options(for host: Host) -> [(String, String)] {
    var options = [
      ("host", host.name), ("port", "\(host.port)"), ("dbname", database), ("user", user),
      ("sslmode", (encryption ?? (host.isLocal ? .disable : .verifyFull)).rawValue),
      ("application_name", "carillon/\(node)"), ("target_session_attrs", "read-write"), ("client_encoding", "UTF8"),
      ("keepalives_idle", "5"), ("keepalives_interval", "2"), ("keepalives_count", "3"), ("tcp_user_timeout", "5000"),
      ("options", "-c lock_timeout=2s -c idle_in_transaction_session_timeout=30s -c synchronous_commit=on"),
    ]
    if let password { options.append(("password", password)) }
    if let authorities {
      options.append(("sslrootcert", authorities))
    } else if encryption == .verifyFull {
      options.append(("sslrootcert", "system"))
    }
    return options
  }
}

extension PostgreSQLConnection {
  /// A host that is being dialled.
  @safe private final class Dial {
    let host: PostgreSQLSettings.Host
    /// Nil once the connection is another's.
    private var connection: OpaquePointer?
    private var events = Int16(POLLOUT)

    init(_ host: PostgreSQLSettings.Host, _ options: [(String, String)]) {
      self.host = host
      let keys = unsafe options.map { unsafe strdup($0.0) }
      let values = unsafe options.map { unsafe strdup($0.1) }
      defer { unsafe (keys + values).forEach { unsafe free($0) } }
      let keyPointers = unsafe keys.map { unsafe UnsafePointer($0) } + [nil]
      let valuePointers = unsafe values.map { unsafe UnsafePointer($0) } + [nil]
      unsafe connection = unsafe PQconnectStartParams(keyPointers, valuePointers, 0)
    }

    deinit { unsafe PQfinish(connection) }

    var hasFailed: Bool { unsafe PQstatus(connection) == CONNECTION_BAD }

    /// What it waits for.
    var descriptor: pollfd { unsafe pollfd(fd: PQsocket(connection), events: events, revents: 0) }

    /// The server has said something.
    ///
    /// - Returns: whether the connection can be used.
    func advance() -> Bool {
      switch unsafe PQconnectPoll(connection) {
      case PGRES_POLLING_OK: return true
      case PGRES_POLLING_READING: events = Int16(POLLIN)
      default: events = Int16(POLLOUT)
      }
      return false
    }

    func take(name: String) -> PostgreSQLConnection? {
      guard let taken = unsafe exchange(&connection, with: nil) else { return nil }
      return unsafe PostgreSQLConnection(taken, name: name)
    }

    var problem: String {
      unsafe String(cString: PQerrorMessage(connection)).split(whereSeparator: \.isNewline)
        .map { $0.trimmingPrefix { $0 == " " || $0 == "\t" } }.joined(separator: " ")
    }
  }

  /// The first host that answers and can be written. All are dialled at the same time: libpq itself
  /// would wait for ever for the first one, if that accepts connections and does not answer.
  ///
  /// - Throws: ``StoreError``: `unusable` if a host refuses this user or database, else `away`.
  static func open(
    _ settings: PostgreSQLSettings, by deadline: MonotonicTime
  ) throws(StoreError) -> PostgreSQLConnection {
    var dials = settings.hosts.map { Dial($0, settings.options(for: $0)) }
    var problems: [String] = []
    while !dials.isEmpty, deadline.millisecondsLeft > 0 {
      problems += dials.filter(\.hasFailed).map(\.problem)
      dials.removeAll(where: \.hasFailed)
      var descriptors = dials.map(\.descriptor)
      _ = unsafe poll(&descriptors, nfds_t(descriptors.count), Int32(clamping: min(50, deadline.millisecondsLeft)))
      for (dial, descriptor) in zip(dials, descriptors) where descriptor.revents != 0 {
        if dial.advance(), let connection = dial.take(name: settings.name) { return connection }
      }
    }
    problems += dials.map { "\($0.host.text) does not answer" }
    throw failure(settings.name, problems)
  }

  /// libpq gives no SQLSTATE for a connection that was refused, only the server's words.
  private static func failure(_ name: String, _ problems: [String]) -> StoreError {
    let what = problems.isEmpty ? "no host is known" : problems.joined(separator: "; ")
    let refusals = ["authentication failed", "does not exist", "no pg_hba.conf entry", "permission denied"]
    let isRefused = problems.contains { problem in refusals.contains { problem.contains($0) } }
    return StoreError(isRefused ? .unusable : .away, path: name, "the database \(name) cannot be reached: \(what)")
  }
}
