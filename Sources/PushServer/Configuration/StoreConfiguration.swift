internal import Carillon
internal import Foundation
package import PushStore
internal import PushStoreSQLite

#if PostgreSQL
internal import PushStorePostgreSQL
#endif

/// Where a service remembers things.
package enum StoreConfiguration: Hashable, Sendable {
  /// An SQLite file. Nil: `store.db` in the folder of the configuration file.
  case file(String?)
  case postgreSQL(PostgreSQLSettings)

  /// Of the SQLite file; nil: it is a database.
  ///
  /// - Parameter file: the configuration file.
  package func path(besides file: String) -> String? {
    guard case .file(let path) = self else { return nil }
    return path ?? FilePath.resolve("store.db", besides: file)
  }

  /// How this machine takes part among those that share the store.
  package struct Cluster: Hashable, Sendable {
    package var node: String
    package var lease: Duration
  }

  /// Nil: no other process can use the store.
  package var cluster: Cluster? {
    guard case .postgreSQL(let settings) = self else { return nil }
    return Cluster(node: settings.node, lease: settings.lease)
  }

  /// What this machine is called.
  var node: String { cluster?.node ?? ProcessInfo.processInfo.hostName }

  /// The same for all machines.
  var withoutCluster: StoreConfiguration {
    guard case .postgreSQL(var settings) = self else { return self }
    (settings.node, settings.lease) = ("", NodeFacts.usualLease)
    return .postgreSQL(settings)
  }

  /// With which the names of the files begin that a service keeps beside its store.
  func base(besides file: String) -> String { path(besides: file) ?? FilePath.resolve("store", besides: file) }

  /// Opens the store for the service with a journal.
  ///
  /// - Throws: ``StoreError``.
  func open(besides file: String, journal folder: String) throws(StoreError) -> (any Store, NodeFile?) {
    guard case .postgreSQL(var settings) = self else { return (try open(besides: file), nil) }
    let node = NodeFile(folder: folder, host: ProcessInfo.processInfo.hostName)
    settings.journal = node.journal
    return (try Self.postgreSQL(settings).open(besides: file), node)
  }

  /// - Parameter isVisitor: A service may have it open, and keeps it in order.
  /// - Throws: ``StoreError``.
  package func open(besides file: String, isVisitor: Bool = false) throws(StoreError) -> any Store {
    switch self {
    case .file: return try SQLiteStore(path: base(besides: file), isVisitor: isVisitor)
    case .postgreSQL(let settings):
      #if PostgreSQL
      return try PostgreSQLStore(isVisitor ? settings.asVisitor : settings)
      #else
      throw Self.isMissing(settings)
      #endif
    }
  }

  /// What `--check` says about a database.
  static func report(
    on settings: PostgreSQLSettings, at now: Int64
  ) throws(StoreError) -> (facts: [String], warnings: [String], problems: [String]) {
    #if PostgreSQL
    let report = try PostgreSQLReport(settings, at: now)
    return (report.facts, report.warnings, report.problems)
    #else
    throw isMissing(settings)
    #endif
  }

  #if !PostgreSQL
  static func isMissing(_ settings: PostgreSQLSettings) -> StoreError {
    StoreError(
      .unusable, path: settings.name,
      "this carillon was built without PostgreSQL; build it with the trait \"PostgreSQL\"")
  }
  #endif
}

extension StoreConfiguration {
  /// How this machine takes part, if several share the store.
  mutating func takeCluster(_ node: YAMLNode) throws(ConfigurationError) {
    guard case .postgreSQL(var settings) = self else {
      throw node.error("needs a store that machines can share: \"store: { postgres: … }\"; add one, or take it out")
    }
    var reader = try YAMLReader(node)
    if let value = reader.take("node") { settings.node = try value.nodeName() }
    if let value = reader.take("lease") { settings.lease = try value.duration(in: Self.leases) }
    try reader.finish()
    self = .postgreSQL(settings)
  }

  /// A shorter one would end with a busy database, and a longer one with somebody's patience.
  private static let leases = Duration.seconds(3) ... .seconds(60)

  init(_ node: YAMLNode) throws(ConfigurationError) {
    var reader = try YAMLReader(node)
    let path = reader.take("path")
    let database = reader.take("postgres")
    try reader.finish()
    switch (path, database) {
    case (let path, nil): self = .file(try path?.filePath())
    case (nil, let database?): self = .postgreSQL(try PostgreSQLSettings(database))
    case (_?, _?): throw node.error("has both \"path\" and \"postgres\"; take one of them out")
    }
  }
}

extension PostgreSQLSettings {
  fileprivate init(_ node: YAMLNode) throws(ConfigurationError) {
    var reader = try YAMLReader(node)
    let hosts = try reader.require("hosts", example: "[db1:5432, db2:5432]")
    var addresses: [Host] = []
    for entry in try hosts.list() { addresses.append(try Host(entry)) }
    guard !addresses.isEmpty, addresses.count <= Self.hostLimit else {
      throw hosts.error("must name 1 to \(Self.hostLimit) hosts")
    }
    self.init(
      hosts: addresses, database: try reader.require("database", example: "carillon").text(),
      user: try reader.require("user", example: "carillon").text(), node: ProcessInfo.processInfo.hostName)
    passwordFile = try reader.take("password-file")?.filePath()
    if let value = reader.take("tls") { encryption = try value.choice(Encryption.self) }
    authorities = try reader.take("trust")?.filePath()
    if let value = reader.take("connections") { connectionCount = try value.integer(in: 4...64) }
    try reader.finish()
  }

  private static let hostLimit = 16
}

extension YAMLNode {
  /// What people call a machine: it stands in lists and labels.
  fileprivate func nodeName() throws(ConfigurationError) -> String {
    let text = try text()
    let isPlain = text.utf8.allSatisfy { byte in
      (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
        || [UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_")].contains(byte)
    }
    guard isPlain, (1...63).contains(text.utf8.count) else {
      throw error("must be 1 to 63 letters, digits, dots, dashes and underscores, not \(text.cited)")
    }
    return text
  }
}

extension PostgreSQLSettings.Host {
  /// `name`, `name:port`, `[::1]:port`, or the folder of a Unix socket.
  fileprivate init(_ node: YAMLNode) throws(ConfigurationError) {
    let text = try node.text()
    guard !text.hasPrefix("/") else {
      self.init(name: text)
      return
    }
    let isAddress = text.hasSuffix("]") || text.count { $0 == ":" } != 1 && !text.hasPrefix("[")
    let listen = isAddress ? nil : try Listen(node)
    self.init(name: listen?.host ?? text.trimmingCharacters(in: ["[", "]"]), port: listen?.port ?? 5432)
  }
}
