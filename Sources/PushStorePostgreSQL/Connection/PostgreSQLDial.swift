internal import CPostgreSQL
internal import Glibc
internal import PushStore

extension PostgreSQLSettings {
  private func encryption(of host: Host) -> Encryption { encryption ?? (host.isLocal ? .disable : .verifyFull) }

  /// How the sessions of services are called at the server.
  static let servicePrefix = "carillon/"

  func encrypts(_ host: Host) -> Bool { encryption(of: host) != .disable }

  /// Of libpq, for one of the hosts.
  fileprivate func options(for host: Host, password: String?) -> [(String, String)] {
    var options = [
      ("host", host.name), ("port", "\(host.port)"), ("dbname", database), ("user", user),
      ("sslmode", encryption(of: host).rawValue), ("gssencmode", "disable"),
      ("application_name", isVisitor ? "carillon" : "\(Self.servicePrefix)\(node)"),
      ("target_session_attrs", "read-write"), ("client_encoding", "UTF8"),
      ("keepalives_idle", "5"), ("keepalives_interval", "2"), ("keepalives_count", "3"), ("tcp_user_timeout", "5000"),
      ("options", "-c lock_timeout=2s -c idle_in_transaction_session_timeout=30s -c synchronous_commit=on"),
    ]
    if let password { options.append(("password", password)) }
    if let authorities = authorities ?? systemAuthorities(for: host) { options.append(("sslrootcert", authorities)) }
    return options
  }

  /// libpq knows those of the system from version 16 on, and looks for a file of the user without
  /// this.
  private func systemAuthorities(for host: Host) -> String? {
    switch encryption(of: host) {
    case .verifyFull where PQlibVersion() >= 160_000: "system"
    case .verifyFull, .verifyAuthority: Self.authorityFiles.first { unsafe access($0, R_OK) == 0 }
    case .disable, .require: nil
    }
  }

  /// Of Debian, Fedora, SUSE and Alpine.
  private static let authorityFiles = [
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
  ]

  /// It is read for each connection: it may be another one by now.
  ///
  /// - Throws: ``StoreError``, `unusable`.
  func password() throws(StoreError) -> String? {
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

/// A host that is being dialled.
@safe final class PostgreSQLDial {
  /// Nil once the connection is another's.
  private var connection: OpaquePointer?
  private var events = Int16(POLLOUT)

  init(_ settings: PostgreSQLSettings, _ host: PostgreSQLSettings.Host, password: String?) {
    let options = settings.options(for: host, password: password)
    let keys = unsafe options.map { unsafe strdup($0.0) }
    let values = unsafe options.map { unsafe strdup($0.1) }
    defer { unsafe (keys + values).forEach { unsafe free($0) } }
    let keyPointers = unsafe keys.map { unsafe UnsafePointer($0) } + [nil]
    let valuePointers = unsafe values.map { unsafe UnsafePointer($0) } + [nil]
    unsafe connection = unsafe PQconnectStartParams(keyPointers, valuePointers, 0)
    // Otherwise libpq writes what the server remarks to standard error.
    unsafe PQsetNoticeReceiver(connection, { _, _ in }, nil)
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

  func take(_ servers: PostgreSQLServers) -> PostgreSQLConnection? {
    guard let taken = unsafe exchange(&connection, with: nil) else { return nil }
    return unsafe PostgreSQLConnection(taken, servers)
  }

  var problem: String {
    unsafe String(cString: PQerrorMessage(connection)).split(whereSeparator: \.isNewline)
      .map { $0.trimmingPrefix { $0 == " " || $0 == "\t" } }.joined(separator: " ")
  }
}
