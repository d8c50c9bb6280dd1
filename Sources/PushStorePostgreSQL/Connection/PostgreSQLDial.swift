internal import CPostgreSQL
internal import Glibc
internal import PushStore

extension PostgreSQLSettings {
  /// Of libpq, for one of the hosts.
  fileprivate func options(for host: Host, password: String?) -> [(String, String)] {
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

  /// It is read for each connection: it may be another one by now.
  ///
  /// - Throws: ``StoreError``, `unusable`.
  fileprivate func password() throws(StoreError) -> String? {
    guard let passwordFile else { return nil }
    let file = unsafe open(passwordFile, O_RDONLY | O_CLOEXEC)
    defer { if file >= 0 { close(file) } }
    var bytes = [UInt8](repeating: 0, count: Self.passwordByteCount)
    let count = unsafe read(file, &bytes, bytes.count)
    guard count >= 0 else {
      throw StoreError(
        .unusable, path: passwordFile,
        "the password of \(name) cannot be read from \(passwordFile); check the path and its permissions")
    }
    return bytes[..<count].split(whereSeparator: { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }).first
      .map { String(decoding: $0, as: UTF8.self) }
  }

  private static let passwordByteCount = 4096
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
    let password = try settings.password()
    var dials = settings.hosts.map { Dial($0, settings.options(for: $0, password: password)) }
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
