internal import Foundation
internal import PushStore
internal import PushStoreSQLite
internal import Support
internal import Testing

@testable internal import PushStorePostgreSQL

/// What keeps a store.
enum StoreKind: String, CaseIterable, CustomTestStringConvertible {
  case sqlite, postgreSQL
  /// Of the simulation, without its faults.
  case simulated

  var testDescription: String { rawValue }

  /// Each kind with these seeds. A database for each takes longer than a file does.
  static func with(_ seeds: Range<UInt64>) -> [(UInt64, StoreKind)] {
    seeds.flatMap { [($0, .sqlite), ($0, .simulated)] } + seeds.prefix(5).map { ($0, .postgreSQL) }
  }
}

/// Where a test's store is: a file, a database of its own on the tests' server, or memory.
final class StorePlace: Sendable {
  let folder: Workplace
  let database: PostgreSQLSettings?
  private let disk: StoreDisk?

  init(_ kind: StoreKind) throws {
    folder = try Workplace()
    database = kind == .postgreSQL ? try PostgreSQLServer.shared.get().makeSettings() : nil
    disk = kind == .simulated ? StoreDisk() : nil
  }

  /// As often as a test likes, but once at a time.
  /// - Parameter node: who writes, if several do.
  func open(node: String = "n1") throws(StoreError) -> any Store {
    if let disk { return SimulatedStore(disk, hasLedger: true) }
    guard var database else { return try SQLiteStore(path: folder.path("store.db")) }
    database.node = node
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

extension PostgreSQLServer {
  var host: PostgreSQLSettings.Host {
    port.map { PostgreSQLSettings.Host(name: "127.0.0.1", port: $0) } ?? PostgreSQLSettings.Host(name: folder)
  }

  /// Of a new database, without tables.
  func makeSettings() throws -> PostgreSQLSettings {
    var settings = PostgreSQLSettings(hosts: [host], database: try makeDatabase(), user: Self.user, node: "n1")
    settings.connectionCount = 4
    return settings
  }
}
