package import Carillon
internal import PushTransport
internal import PushWire

extension DeploymentConfiguration {
  /// Reads a configuration file. An unknown key, a value outside its range, or two apps with one id
  /// are errors that name file and line.
  ///
  /// Relative paths start at the file's folder. Whether the files that they name exist is not
  /// checked here.
  package static func read(file: String) throws(ConfigurationError) -> DeploymentConfiguration {
    try DeploymentConfiguration(YAMLNode.read(file: file))
  }

  package static func parse(_ text: String, file: String) throws(ConfigurationError) -> DeploymentConfiguration {
    try DeploymentConfiguration(YAMLNode.parse(text, file: file))
  }

  private init(_ node: YAMLNode) throws(ConfigurationError) {
    var reader = try YAMLReader(node)
    try self.init(&reader, node)
  }

  /// - Parameter reader: what it has left is an error.
  init(_ reader: inout YAMLReader, _ node: YAMLNode) throws(ConfigurationError) {
    self.init()
    if let value = reader.take("journal") { journal = try JournalConfiguration(value) }
    let apps = reader.take("apps")
    try reader.finish()
    guard let entries = try apps?.list(), !entries.isEmpty else {
      throw node.error("names no app; add \"apps:\" with a list of them, each beginning with \"- id: …\"")
    }
    var lines: [String: Int] = [:]
    for entry in entries {
      let app = try AppSettings(entry)
      if let line = lines.updateValue(entry.line, forKey: app.id) {
        throw entry.error("has the same id as the entry in line \(line), \"\(app.id)\"; give each app an id of its own")
      }
      self.apps.append(app)
    }
  }
}

extension JournalConfiguration {
  fileprivate init(_ node: YAMLNode) throws(ConfigurationError) {
    self.init()
    var reader = try YAMLReader(node)
    if let value = reader.take("directory") { directory = try value.filePath() }
    if let value = reader.take("sync") { sync = try value.choice(Sync.self) }
    if let value = reader.take("interval") { interval = try value.duration(in: .milliseconds(1) ... .seconds(60)) }
    try reader.finish()
  }
}

extension AppSettings {
  fileprivate init(_ node: YAMLNode) throws(ConfigurationError) {
    var reader = try YAMLReader(node)
    let id = try reader.require("id", example: "news")
    let name = try id.text()
    guard name.utf8.count <= 128, name.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || "._-".contains($0)) })
    else {
      throw id.error("must consist of letters, digits, \".\", \"_\" and \"-\", at most 128, not \(name.cited)")
    }
    guard name != ".", name != ".." else {
      throw id.error("must not be \(name.cited), which addresses and paths use otherwise; name the app, as in news")
    }
    let credentialNode = try reader.require("credential", example: "{ certificate: news.pem, key: news.key }")
    self.init(id: name, credential: try AppCredential(credentialNode))

    if let value = reader.take("topic") { topic = try value.text() }
    if let value = reader.take("environment") { environment = try value.choice(PushEnvironment.self) }
    if let value = reader.take("transport") { transport = try value.choice(Transport.self) }
    try takeHTTP2(&reader)
    if case .tokenKey = credential, transport == .binary {
      throw credentialNode.error(
        "names a token key, which only transport: http2 can use; add that, or name a certificate")
    }
    try takeConnection(&reader)
    try takeLimits(&reader)
    try takeService(&reader)
    try reader.finish()
  }

  /// How the app's lanes send, over either protocol.
  private mutating func takeConnection(_ reader: inout YAMLReader) throws(ConfigurationError) {
    if let value = reader.take("command") {
      try requireBinary(value, "the frame layout of the binary protocol")
      guard let command = FrameVersion(rawValue: UInt8(try value.integer(in: 0...2))) else {
        throw value.error("must be 0, 1 or 2")
      }
      self.command = command
    }
    if let value = reader.take("gateway") {
      guard let endpoint = Endpoint(try value.text()) else {
        throw value.error("must be host:port, as in gateway.example.com:2195, not \(try value.text().cited)")
      }
      gateway = endpoint
    }
    if let value = reader.take("trust") { trust = try value.filePath() }
    if let value = reader.take("connections") { try takeConnections(value) }
    if let value = reader.take("batching") { batching = try Batching(value) }
    if let value = reader.take("window") { window = try Window(value) }
    if let value = reader.take("settle") {
      try requireBinary(value, "the quiet period of the binary protocol")
      settle = try Settle(value)
    }
  }

  /// How long and how fast the app sends.
  private mutating func takeLimits(_ reader: inout YAMLReader) throws(ConfigurationError) {
    if let value = reader.take("on-unknown") { onUnknown = try value.choice(LanePolicy.OnUnknown.self) }
    if let value = reader.take("attempts") { attempts = try value.integer(in: 1...RequestPolicy.attemptCountLimit) }
    if let value = reader.take("patience") { patience = try value.duration(in: Bounds.patience) }
    if let value = reader.take("rate-limit") { rateLimit = try value.rate() }
    if let value = reader.take("weight") { weight = try value.integer(in: Bounds.weight) }
  }

  /// What only `carillon serve` uses.
  private mutating func takeService(_ reader: inout YAMLReader) throws(ConfigurationError) {
    if let value = reader.take("bridge") {
      var bridge = try YAMLReader(value)
      for client in try bridge.take("clients")?.list() ?? [] {
        let text = try client.text()
        bridgeClients.append(text.hasPrefix("sha256:") ? text : try client.filePath())
      }
      try bridge.finish()
    }
    if let value = reader.take("time-zone") { timeZone = try value.timeZone() }
    if let value = reader.take("quiet-hours") { quietHours = try value.quietHours() }
    if let value = reader.take("audiences") {
      var audiences = try YAMLReader(value)
      audienceByteCount = try audiences.take("bytes")?.byteCount(in: 64 << 10...1 << 50)
      try audiences.finish()
    }
    if let value = reader.take("campaigns") {
      var campaigns = try YAMLReader(value)
      if let count = campaigns.take("unfinished") { openCampaignCount = try count.integer(in: Bounds.openCampaigns) }
      try campaigns.finish()
    }
    if let value = reader.take("queue") {
      var queue = try YAMLReader(value)
      queueByteCount = try queue.take("bytes")?.byteCount(in: 64 << 10...4 << 30)
      try queue.finish()
    }
    if let value = reader.take("feedback") { try takeFeedback(value) }
  }

  /// `{ every, service }`
  private mutating func takeFeedback(_ node: YAMLNode) throws(ConfigurationError) {
    try requireBinary(node, "how the feedback service of the binary protocol is read")
    var reader = try YAMLReader(node)
    if let value = reader.take("every") {
      feedbackInterval =
        try value.text() == "never" ? .zero : try value.duration(in: .seconds(1) ... .seconds(30 * 86_400))
    }
    if let value = reader.take("service") {
      guard let endpoint = Endpoint(try value.text()) else {
        throw value.error("must be host:port, as in feedback.example.com:2196, not \(try value.text().cited)")
      }
      feedbackService = endpoint
    }
    try reader.finish()
  }

  private mutating func takeHTTP2(_ reader: inout YAMLReader) throws(ConfigurationError) {
    if let value = reader.take("push-type") {
      try requireHTTP2(value)
      pushType = try value.choice(PushType.self)
    }
    if let value = reader.take("request-timeout") {
      try requireHTTP2(value)
      requestTimeout = try value.duration(in: Bounds.requestTimeout)
    }
    if let value = reader.take("streams") {
      try requireHTTP2(value)
      streams = try value.integer(in: 1...RequestPolicy.streamCountLimit)
    }
    if let value = reader.take("ping-interval") {
      try requireHTTP2(value)
      pingInterval = try value.duration(in: .seconds(1) ... .seconds(3600))
    }
  }

  private func requireHTTP2(_ node: YAMLNode) throws(ConfigurationError) {
    guard transport == .http2 else { throw node.error("needs transport: http2") }
  }

  private func requireBinary(_ node: YAMLNode, _ what: String) throws(ConfigurationError) {
    guard transport == .binary else {
      throw node.error("does not fit transport: http2, because it sets \(what); leave it out")
    }
  }

  /// `{ min, max, per-minute }`. Without a max, a min above 8 is also the max.
  private mutating func takeConnections(_ node: YAMLNode) throws(ConfigurationError) {
    var reader = try YAMLReader(node)
    let least = try reader.take("min")?.integer(in: Bounds.connections)
    let most = try reader.take("max")?.integer(in: Bounds.connections)
    connectionsPerMinute = try reader.take("per-minute")?.integer(in: Bounds.connectionsPerMinute)
    try reader.finish()
    let lower = least ?? 1
    let upper = most ?? max(8, lower)
    guard lower <= upper else { throw node.error("has a min (\(lower)) above its max (\(upper)); exchange them") }
    connections = lower...upper
  }
}

extension AppSettings.Batching {
  fileprivate init(_ node: YAMLNode) throws(ConfigurationError) {
    self.init()
    var reader = try YAMLReader(node)
    if let value = reader.take("max-bytes") { maxBytes = try value.byteCount(in: 4 << 10...16 << 20) }
    if let value = reader.take("max-delay") { maxDelay = try value.duration(in: AppSettings.Bounds.batchDelay) }
    try reader.finish()
  }
}

extension AppSettings.Window {
  fileprivate init(_ node: YAMLNode) throws(ConfigurationError) {
    self.init()
    var reader = try YAMLReader(node)
    if let value = reader.take("notifications") { notifications = try value.integer(in: 64...16_777_216) }
    if let value = reader.take("bytes") { bytes = try value.byteCount(in: 64 << 10...1 << 30) }
    try reader.finish()
  }
}

extension AppSettings.Settle {
  fileprivate init(_ node: YAMLNode) throws(ConfigurationError) {
    self.init()
    var reader = try YAMLReader(node)
    if let value = reader.take("quiet") { quiet = try value.duration(in: AppSettings.Bounds.quiet) }
    if let value = reader.take("confirm") { confirm = try value.choice(LanePolicy.Confirm.self) }
    try reader.finish()
  }
}

extension AppCredential {
  /// `{ p12, passphrase-file }`, `{ certificate, key, passphrase-file }`, or `{ key, key-id,
  /// team-id }`.
  fileprivate init(_ node: YAMLNode) throws(ConfigurationError) {
    var reader = try YAMLReader(node)
    let archive = try reader.take("p12")?.filePath()
    let certificate = try reader.take("certificate")?.filePath()
    let key = try reader.take("key")?.filePath()
    let passphraseFile = try reader.take("passphrase-file")?.filePath()
    let keyIdentifier = try reader.take("key-id")?.text()
    let teamIdentifier = try reader.take("team-id")?.text()
    try reader.finish()
    let isTokenKey = keyIdentifier != nil || teamIdentifier != nil
    switch (archive, certificate, key) {
    case (let archive?, nil, nil) where !isTokenKey:
      self = .certificate(CredentialFiles(certificate: archive, passphraseFile: passphraseFile))
    case (nil, let certificate?, _) where !isTokenKey:
      self = .certificate(CredentialFiles(certificate: certificate, key: key, passphraseFile: passphraseFile))
    case (nil, nil, let key?) where isTokenKey && passphraseFile == nil:
      guard let teamIdentifier else {
        throw node.error(
          "needs team-id beside key-id: the ten characters of the team, as the developer account shows them")
      }
      guard let identifier = keyIdentifier ?? TokenKeyFile.keyIdentifier(inNameOf: key) else {
        throw node.error(
          "needs key-id beside team-id: the ten characters of the key, as in the name AuthKey_ABC123DEFG.p8")
      }
      self = .tokenKey(TokenKeyFile(file: key, keyIdentifier: identifier, teamIdentifier: teamIdentifier))
    default:
      throw node.error(
        "must name either p12 (with passphrase-file), or certificate and key, or a token key as in "
          + "{ key: AuthKey.p8, key-id, team-id }"
      )
    }
  }
}
