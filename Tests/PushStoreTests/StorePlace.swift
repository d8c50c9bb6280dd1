internal import Foundation
internal import PushStore
internal import PushStoreSQLite
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushStorePostgreSQL

/// What keeps a store.
enum StoreKind: String, CaseIterable, CustomTestStringConvertible {
  case sqlite, postgreSQL

  var testDescription: String { rawValue }

  /// Each kind with these seeds. A database for each takes longer than a file does.
  static func with(_ seeds: Range<UInt64>) -> [(UInt64, StoreKind)] {
    seeds.map { ($0, .sqlite) } + seeds.prefix(5).map { ($0, .postgreSQL) }
  }
}

/// Where a test's store is: a file, or a database of its own on the tests' server.
final class StorePlace: Sendable {
  let folder: Workplace
  private let database: PostgreSQLSettings?

  init(_ kind: StoreKind) throws {
    folder = try Workplace()
    database = kind == .postgreSQL ? try PostgreSQLServer.shared.get().makeDatabase() : nil
  }

  /// As often as a test likes, but once at a time.
  func open() throws(StoreError) -> any Store {
    guard let database else { return try SQLiteStore(path: folder.path("store.db")) }
    return try PostgreSQLStore(database)
  }

  /// - Parameter folder: of the socket of a proxy in front of the server.
  func open(through folder: String) throws(StoreError) -> any Store {
    guard var database else { return try open() }
    database.hosts = [PostgreSQLSettings.Host(name: folder)]
    return try PostgreSQLStore(database)
  }

  /// The server's socket; nil: there is no server.
  var socket: String? { database.flatMap(\.hosts.first).map { $0.name + "/.s.PGSQL.\($0.port)" } }
}

/// A PostgreSQL server for all tests of the process. It ends with the process, however that ends.
final class PostgreSQLServer: Sendable {
  static let shared = Result { try PostgreSQLServer() }

  private let folder: String
  private let databaseCount = Mutex(0)
  private init() throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "carillon-postgresql-\(UUID().uuidString)").path
    let (process, output) = (Process(), Pipe())
    process.executableURL = URL(filePath: "/bin/sh")
    process.arguments = ["-c", Self.script, "sh", folder, "\(ProcessInfo.processInfo.processIdentifier)"]
    process.standardInput = FileHandle.nullDevice
    // Whoever runs the tests waits until nobody can write there any more.
    process.standardError = FileHandle.nullDevice
    process.standardOutput = output
    try process.run()
    let answer = output.fileHandleForReading.availableData
    guard String(decoding: answer, as: UTF8.self).hasPrefix("ready") else {
      let log = try? String(contentsOfFile: folder + "/log", encoding: .utf8)
      throw Failure(text: "PostgreSQL does not start: \(log ?? "no log"). Debian's package is postgresql.")
    }
  }

  struct Failure: Error {
    let text: String
  }

  /// The server refuses to run as root.
  private static let script = """
    bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
    as_user() { "$@"; }
    mkdir -p "$1" || exit
    if [ "$(id -u)" = 0 ]; then
      chown postgres "$1"
      as_user() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
    fi
    cd "$1" || exit
    {
      as_user "$bin/initdb" -D data -A trust -U carillon --no-sync -E UTF8 --locale=C.UTF-8
      as_user "$bin/postgres" -D data -k "$1" -h '' -c fsync=off -c max_connections=400 &
      pid=$!
    } >log 2>&1
    for try in $(seq 300); do
      "$bin/pg_isready" -h "$1" -q && echo ready && break
      sleep 0.1
    done
    while kill -0 "$2" 2>/dev/null; do sleep 0.5; done
    kill -INT $pid
    wait $pid
    rm -rf "$1"
    """

  /// A new one, without tables.
  func makeDatabase() throws -> PostgreSQLSettings {
    let name = databaseCount.withLock { count in
      count += 1
      return "test\(count)"
    }
    var settings = PostgreSQLSettings(
      hosts: [PostgreSQLSettings.Host(name: folder)], database: "postgres", user: "carillon", node: "n1")
    settings.connectionCount = 4
    let connection = try PostgreSQLConnection.open(settings, by: .after(.seconds(10)))
    try connection.script("CREATE DATABASE \(name)", by: .after(.seconds(60)))
    settings.database = name
    return settings
  }
}
