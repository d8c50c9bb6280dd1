package import Carillon
internal import Logging
internal import PushTransport
internal import PushWire

extension ServerConfiguration {
  /// Reads the configuration file of `carillon serve`. An unknown key or a value outside its range
  /// is an error that names file and line. Relative paths start at the file's folder.
  package static func read(file: String) throws(ConfigurationError) -> ServerConfiguration {
    try ServerConfiguration(YAMLNode.read(file: file))
  }

  package static func parse(_ text: String, file: String) throws(ConfigurationError) -> ServerConfiguration {
    try ServerConfiguration(YAMLNode.parse(text, file: file))
  }

  /// The keys that only `carillon serve` reads.
  static let keys = ["api", "admin", "store", "shutdown", "retention", "log", "bridge", "cluster"]

  private init(_ node: YAMLNode) throws(ConfigurationError) {
    var reader = try YAMLReader(node)
    let apps = reader.take("apps")
    let journal = try reader.take("journal").map { node throws(ConfigurationError) in try JournalConfiguration(node) }
    let proxy = try AppConfiguration.Proxy.forAll(&reader)
    let parts = Self.keys.map { reader.take($0) }
    try reader.finish()
    self.init(
      journal: journal ?? JournalConfiguration(),
      tenants: try node.apps(apps, { node throws(ConfigurationError) in try Tenant(node, proxy: proxy) }, id: { $0.id })
    )
    if let value = parts[0] { api = try API(value) }
    if let value = parts[1] { admin = try Admin(value) }
    if let value = parts[2] { store = try StoreConfiguration(value) }
    if let value = parts[3] { shutdown = try Shutdown(value) }
    if let value = parts[7] { try store.takeCluster(value) }
    if let value = parts[6] { bridge = try BridgeConfiguration(value) }
    if let value = parts[4] { retention = try value.duration(in: .seconds(60) ... .seconds(3660 * 86_400)) }
    if let value = parts[5] { log = try Log(value) }
    if store.cluster == nil, let tenant = tenants.first(where: { $0.keyOfSeveralNodes != nil }) {
      throw node.error(
        "has an app \(tenant.id) with \"\(tenant.keyOfSeveralNodes ?? "")\", which needs a store that machines can share; add "
          + "\"store: { postgres: … }\", or take it out")
    }
    guard self.journal.directory != nil else {
      throw node.error(
        "names no journal, without which an acknowledged notification could be lost; add "
          + "\"journal: { directory: journal }\"")
    }
  }
}

extension ServerConfiguration.API {
  fileprivate init(_ node: YAMLNode) throws(ConfigurationError) {
    self.init()
    var reader = try YAMLReader(node)
    if let value = reader.take("listen") { listen = try Listen(value) }
    if let value = reader.take("max-body") { maxBody = try value.byteCount(in: 4 << 10...1 << 30) }
    if let value = reader.take("max-connections") { maxConnections = try value.integer(in: 1...1_000_000) }
    if let value = reader.take("max-address-connections") {
      maxAddressConnections = try value.integer(in: 1...maxConnections)
    }
    if let value = reader.take("max-keyless-connections") {
      maxKeylessConnections = try value.integer(in: 1...maxConnections)
    }
    if let value = reader.take("idle-timeout") {
      idleTimeout = try value.duration(in: .seconds(1) ... .seconds(86_400))
    }
    if let value = reader.take("rate-limit") { rateLimit = try value.rate() }
    try takeCertificate(&reader)
    if let value = reader.take("hosts") {
      for entry in try value.list() { hosts.insert(try entry.text().lowercased()) }
    }
    try reader.finish()
    guard certificate != nil || listen.isLoopback else {
      throw node.error(
        "would serve \(listen) without TLS; name a certificate and its key, or listen on 127.0.0.1 behind a proxy")
    }
  }
}

extension ServerConfiguration.API {
  private mutating func takeCertificate(_ reader: inout YAMLReader) throws(ConfigurationError) {
    let file = try reader.take("certificate")?.filePath()
    let key = try reader.take("key")?.filePath()
    let passphraseFile = try reader.take("passphrase-file")?.filePath()
    if let file {
      certificate = CredentialFiles(certificate: file, key: key, passphraseFile: passphraseFile)
    } else if key != nil || passphraseFile != nil {
      throw reader.node.error("names a key without its certificate; add \"certificate: api.pem\"")
    }
  }
}

extension ServerConfiguration.Log {
  fileprivate init(_ node: YAMLNode) throws(ConfigurationError) {
    self.init()
    var reader = try YAMLReader(node)
    if let value = reader.take("level") { level = try value.choice(Logger.Level.self) }
    if let value = reader.take("format") { format = try value.choice(Format.self) }
    try reader.finish()
  }
}

extension ServerConfiguration.Admin {
  fileprivate init(_ node: YAMLNode) throws(ConfigurationError) {
    self.init()
    var reader = try YAMLReader(node)
    if let value = reader.take("listen") { listen = try Listen(value) }
    try reader.finish()
  }
}

extension ServerConfiguration.Shutdown {
  fileprivate init(_ node: YAMLNode) throws(ConfigurationError) {
    self.init()
    var reader = try YAMLReader(node)
    if let value = reader.take("announce") { announce = try value.duration(in: .zero ... .seconds(600)) }
    if let value = reader.take("drain") { drain = try value.duration(in: .zero ... .seconds(3600)) }
    try reader.finish()
  }
}

extension Listen {
  init(_ node: YAMLNode) throws(ConfigurationError) {
    let text = try node.text()
    let name = text.split(separator: ":", omittingEmptySubsequences: false).dropLast().joined(separator: ":")
    let host = name.hasPrefix("[") && name.hasSuffix("]") ? String(name.dropFirst().dropLast()) : name
    guard let port = text.split(separator: ":", omittingEmptySubsequences: false).last.flatMap({ UInt16($0) }),
      !host.isEmpty
    else { throw node.error("must be host:port, as in 127.0.0.1:8480, not \(text.cited)") }
    self.init(host: host, port: Int(port))
  }

  /// A name other than `localhost` is none, also one that begins as an address.
  package var isLoopback: Bool {
    let numbers = host.split(separator: ".", omittingEmptySubsequences: false)
    return host == "localhost" || host == "::1"
      || numbers.count == 4 && numbers[0] == "127" && numbers.allSatisfy { UInt8($0) != nil }
  }
}

package enum FilePath {
  /// Resolves a path written in `file`. Relative paths start at that file's folder.
  package static func resolve(_ path: String, besides file: String) -> String {
    guard !path.hasPrefix("/"), let slash = file.lastIndex(of: "/") else { return path }
    return String(file[...slash]) + path
  }
}
