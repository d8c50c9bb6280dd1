internal import Foundation
internal import Synchronization

/// A PostgreSQL server. It ends with the process, however that ends.
package final class PostgreSQLServer: Sendable {
  /// For all tests that do not disturb it.
  package static let shared = Result { try PostgreSQLServer() }

  /// Of its socket.
  package let folder: String
  private let databaseCount = Mutex(0)

  package static let user = "carillon"

  /// - Parameter isDurable: as slow as a server whose data matters.
  package init(isDurable: Bool = false) throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "carillon-postgresql-\(UUID().uuidString)").path
    let (process, output) = (Process(), Pipe())
    process.executableURL = URL(filePath: "/bin/sh")
    process.arguments = [
      "-c", Self.script, "sh", folder, "\(ProcessInfo.processInfo.processIdentifier)",
      isDurable ? "on" : "off",
    ]
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

  package struct Failure: Error {
    package let text: String
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
      as_user "$bin/postgres" -D data -k "$1" -h '' -c fsync=$3 -c max_connections=400 &
      pid=$!
    } >log 2>&1
    for try in $(seq 300); do
      "$bin/pg_isready" -h "$1" -q && echo ready && break
      sleep 0.1
    done
    while kill -0 "$2" 2>/dev/null; do sleep 0.5; done
    pkill -CONT -P $pid
    kill -CONT $pid
    kill -INT $pid
    wait $pid
    rm -rf "$1"
    """

  /// Stops the server with all of its sessions, so that its connections stay open and nothing
  /// answers; or lets them go on.
  package func setStopped(_ isStopped: Bool) throws {
    let text = try String(contentsOfFile: folder + "/data/postmaster.pid", encoding: .utf8)
    guard let pid = text.split(separator: "\n").first else { throw Failure(text: "it has no pid") }
    let signal = isStopped ? "STOP" : "CONT"
    try run(["sh", "-c", "kill -\(signal) \(pid); pkill -\(signal) -P \(pid)"])
  }

  /// A new database, without tables.
  ///
  /// - Returns: its name.
  package func makeDatabase() throws -> String {
    let name = databaseCount.withLock { count in
      count += 1
      return "test\(count)"
    }
    try run(["createdb", "-h", folder, "-U", Self.user, name])
    return name
  }

  private func run(_ arguments: [String]) throws {
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = arguments
    process.standardInput = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
    guard process.terminationStatus == 0 else {
      throw Failure(text: "\(arguments) fails: \(process.terminationStatus)")
    }
  }
}
