package import Carillon
internal import PushWire

extension ServerConfiguration {
  /// Reads the configuration file of `carillon serve`. An unknown key or a value outside its range is
  /// an error that names file and line. Relative paths start at the file's folder.
  package static func read(file: String) throws(ConfigurationError) -> ServerConfiguration {
    try ServerConfiguration(YAMLNode.read(file: file))
  }

  package static func parse(_ text: String, file: String) throws(ConfigurationError) -> ServerConfiguration {
    try ServerConfiguration(YAMLNode.parse(text, file: file))
  }

  private init(_ node: YAMLNode) throws(ConfigurationError) {
    var reader = try YAMLReader(node)
    let parts = ["api", "admin", "store", "shutdown", "retention", "bridge"].map { reader.take($0) }
    self.init(deployment: try DeploymentConfiguration(&reader, node))
    if let value = parts[0] { api = try API(value) }
    if let value = parts[1] { admin = try Admin(value) }
    if let value = parts[2] {
      var reader = try YAMLReader(value)
      storePath = try reader.take("path")?.filePath()
      try reader.finish()
    }
    if let value = parts[3] { shutdown = try Shutdown(value) }
    if let value = parts[5] { bridge = try BridgeConfiguration(value) }
    if let value = parts[4] { retention = try value.duration(in: .seconds(60) ... .seconds(3660 * 86_400)) }
    guard deployment.journal.directory != nil else {
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
    if let value = reader.take("idle-timeout") {
      idleTimeout = try value.duration(in: .seconds(1) ... .seconds(86_400))
    }
    try reader.finish()
    guard listen.isLoopback else {
      throw node.error("would serve \(listen) without TLS; listen on 127.0.0.1 behind a proxy that has a certificate")
    }
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

  var isLoopback: Bool { host == "localhost" || host == "::1" || host.hasPrefix("127.") }
}
