internal import Foundation
internal import Synchronization

/// A PostgreSQL server. It ends with this object, or with the process, however that ends.
package final class PostgreSQLServer: Sendable {
  /// How a server is made.
  package struct Setup: Sendable {
    /// On the loopback address; nil: only its socket.
    package var port: Int?
    /// Names in its certificate, of an authority of its own (``PostgreSQLServer/authority``).
    /// Empty: without TLS.
    package var names: [String] = []
    /// Of the user, on the loopback address. Nil: whoever comes is let in.
    package var password: String?
    /// What it has committed is there after a loss of power.
    package var syncs = false

    package init() {}
  }

  /// For all tests that do not disturb it.
  package static let shared = Result { try PostgreSQLServer() }

  /// Of its socket.
  package let folder: String
  package let port: Int?
  private let databaseCount = Mutex(0)

  package static let user = "carillon"

  /// The certificate of the authority that has signed its own.
  package var authority: String { folder + "/authority.pem" }

  package convenience init(_ setup: Setup = Setup()) throws {
    try self.init(port: setup.port)
    let authentication = setup.password == nil ? "trust" : "scram-sha-256"
    try prepare(
      """
      as_user "$bin/initdb" -D data -A trust -U carillon --no-sync -E UTF8 --locale=C.UTF-8
      printf 'local all all trust\\nlocal replication all trust\\nhost all all 127.0.0.1/32 \(authentication)\\n' \
        >data/pg_hba.conf
      \(Self.certificate(setup.names))
      {
        echo "listen_addresses = '\(setup.port == nil ? "" : "127.0.0.1")'"
        echo "fsync = \(setup.syncs ? "on" : "off")"
        echo "max_connections = 400"
        \(setup.names.isEmpty ? "" : "echo \"ssl = on\"")
      } >>data/postgresql.conf
      """)
    try start()
    if let password = setup.password { try query("ALTER USER carillon PASSWORD '\(password)'") }
  }

  private static func certificate(_ names: [String]) -> String {
    guard !names.isEmpty else { return "" }
    let alternatives = names.map { ($0.allSatisfy { $0.isNumber || $0 == "." } ? "IP:" : "DNS:") + $0 }
    return """
      new="openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -batch"
      as_user $new -x509 -days 2 -subj '/CN=an authority of the tests' -keyout authority.key -out authority.pem
      as_user $new -subj '/CN=\(names[0])' -keyout data/server.key -out server.csr
      echo 'subjectAltName=\(alternatives.joined(separator: ","))' >names
      as_user openssl x509 -req -days 2 -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial \
        -extfile names -out data/server.crt
      as_user chmod 600 data/server.key
      """
  }

  /// Has a folder, and whoever ends the server.
  private init(port: Int?) throws {
    self.port = port
    folder = FileManager.default.temporaryDirectory.appending(path: "carillon-postgresql-\(UUID().uuidString)").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    try ChildProcess.leave(
      ["-c", Self.beginning + Self.ending, "sh", folder, "\(ProcessInfo.processInfo.processIdentifier)"],
      program: "/bin/sh")
  }

  deinit { _ = FileManager.default.createFile(atPath: folder + "/end", contents: nil) }

  package struct Failure: Error, CustomStringConvertible {
    package let description: String
  }

  /// The server refuses to run as root.
  private static let beginning = """
    bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
    as_user() { "$@"; }
    cd "$1" || exit
    if [ "$(id -u)" = 0 ]; then
      chown postgres "$1"
      as_user() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
    fi
    pid() { head -n 1 data/postmaster.pid; }
    children() { pgrep -P $(pid); }

    """

  private static let ending = """
    trap '' HUP INT TERM
    while kill -0 "$2" 2>/dev/null && ! [ -e end ]; do sleep 0.5; done
    if [ -e data/postmaster.pid ]; then
      kill -CONT $(children) $(pid)
      as_user "$bin/pg_ctl" -D data -m immediate -w stop
    fi
    rm -rf "$1"
    """

  // MARK: What becomes of it

  package func start() throws {
    do {
      try prepare("as_user \"$bin/pg_ctl\" -D data -l server.log -o \"-k '$1' -p \(port ?? 5432)\" -w -t 60 start")
    } catch {
      let log = try? String(contentsOfFile: folder + "/server.log", encoding: .utf8)
      throw Failure(description: "PostgreSQL does not start: \(log ?? "no log"). Debian's package is postgresql.")
    }
  }

  /// Ends it with all of its sessions, as if its machine had lost its power.
  package func kill() throws {
    try prepare("kill -STOP $(pid); kill -9 $(children) $(pid); rm data/postmaster.pid")
  }

  /// Ends it, and tells its clients.
  package func end() throws { try prepare("as_user \"$bin/pg_ctl\" -D data -m fast -w stop") }

  /// Stops the server with all of its sessions, so that its connections stay open and nothing
  /// answers; or lets them go on.
  ///
  /// While the server itself is stopped, no process of a session that ends goes away before it gets
  /// its signal.
  package func setStopped(_ isStopped: Bool) throws {
    try prepare(isStopped ? "kill -STOP $(pid); kill -STOP $(children)" : "kill -CONT $(children) $(pid)")
  }

  // MARK: Standbys

  /// A standby of this server, which waits for it with each commit from now on.
  ///
  /// - Parameter port: on the loopback address.
  package func makeStandby(port: Int? = nil) throws -> PostgreSQLServer {
    let standby = try PostgreSQLServer(port: port)
    try standby.prepare(
      "as_user \"$bin/pg_basebackup\" -h '\(folder)' -p \(self.port ?? 5432) -U carillon -R -c fast -D data")
    try standby.start()
    try setSynchronous(true)
    return standby
  }

  /// Whether commits wait for a standby.
  package func setSynchronous(_ isSynchronous: Bool) throws {
    try query("ALTER SYSTEM SET synchronous_standby_names = '\(isSynchronous ? "*" : "")'")
    try query("SELECT pg_reload_conf()")
    guard isSynchronous else { return }
    for _ in 0..<300 {
      if try query("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1" { return }
      usleep(20_000)
    }
    throw Failure(description: "the standby does not connect")
  }

  /// Makes the primary of a standby.
  package func promote() throws { try prepare("as_user \"$bin/pg_ctl\" -D data -w promote") }

  // MARK: Databases

  /// A new database, without tables.
  ///
  /// - Returns: its name.
  package func makeDatabase() throws -> String {
    let name = databaseCount.withLock { count in
      count += 1
      return "test\(count)"
    }
    try query("CREATE DATABASE \(name)")
    return name
  }

  /// Runs one statement, with all rights.
  ///
  /// - Returns: its rows, columns separated by `|`.
  @discardableResult
  package func query(_ statement: String, in database: String = "postgres") throws -> String {
    try run(["psql", "-h", folder, "-p", "\(port ?? 5432)", "-U", Self.user, "-XAtqc", statement, database])
  }

  /// A shell script, in the server's folder.
  private func prepare(_ script: String) throws {
    try run(["/bin/sh", "-c", Self.beginning + "{\nset -e\n\(script)\n} >>log 2>&1", "sh", folder])
  }

  @discardableResult
  private func run(_ arguments: [String]) throws -> String {
    let ending = try ChildProcess.runNow(Array(arguments.dropFirst()), program: arguments[0])
    guard ending.status == 0 else {
      let log = try? String(contentsOfFile: folder + "/log", encoding: .utf8)
      throw Failure(description: "\(arguments) fails: \(ending)\n\(log?.suffix(1000) ?? "")")
    }
    return ending.output.trimmingCharacters(in: .newlines)
  }
}
