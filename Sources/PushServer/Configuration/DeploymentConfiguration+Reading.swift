package import Carillon
internal import PushTransport
internal import PushWire

extension DeploymentConfiguration {
  /// Reads the part of a configuration file that every command needs: the journal and the apps. The
  /// keys of `carillon serve` are passed over. Any other unknown key, a value outside its range, or
  /// two apps with one id are errors that name file and line.
  ///
  /// Relative paths start at the file's folder. Whether their files exist is not checked here.
  package static func read(file: String) throws(ConfigurationError) -> DeploymentConfiguration {
    try DeploymentConfiguration(YAMLNode.read(file: file))
  }

  package static func parse(_ text: String, file: String) throws(ConfigurationError) -> DeploymentConfiguration {
    try DeploymentConfiguration(YAMLNode.parse(text, file: file))
  }

  private init(_ node: YAMLNode) throws(ConfigurationError) {
    self.init()
    var reader = try YAMLReader(node)
    let apps = reader.take("apps")
    let proxy = try AppConfiguration.Proxy.forAll(&reader)
    if let value = reader.take("journal") { journal = try JournalConfiguration(value) }
    for key in ServerConfiguration.keys { _ = reader.take(key) }
    try reader.finish()
    self.apps = try node.apps(apps) { node throws(ConfigurationError) in
      var sections = try YAMLSections(node)
      let app = try AppConfiguration(&sections, proxy: proxy)
      for key in Tenant.keys { _ = try sections.take(key) }
      try sections.finish()
      return app
    } id: {
      $0.id
    }
  }
}

extension YAMLNode {
  /// The apps of the file: at least one, each with an id of its own.
  func apps<App>(
    _ list: YAMLNode?, _ read: (YAMLNode) throws(ConfigurationError) -> App, id: (App) -> String
  ) throws(ConfigurationError) -> [App] {
    guard let entries = try list?.list(), !entries.isEmpty else {
      throw error("names no app; add \"apps:\" with a list of them, each beginning with \"- id: …\"")
    }
    var apps: [App] = []
    var lines: [String: Int] = [:]
    for entry in entries {
      let app = try read(entry)
      if let line = lines.updateValue(entry.line, forKey: id(app)) {
        throw entry.error(
          "has the same id as the entry in line \(line), \"\(id(app))\"; give each app an id of its own")
      }
      apps.append(app)
    }
    return apps
  }
}

extension JournalConfiguration {
  init(_ node: YAMLNode) throws(ConfigurationError) {
    self.init()
    var reader = try YAMLReader(node)
    if let value = reader.take("directory") { directory = try value.filePath() }
    if let value = reader.take("sync") { sync = try value.choice(Sync.self) }
    if let value = reader.take("interval") { interval = try value.duration(in: .milliseconds(1) ... .seconds(60)) }
    try reader.finish()
  }
}

extension AppConfiguration {
  /// - Parameters:
  ///   - sections: what they have left belongs to a service, or is an error.
  ///   - proxy: of an app that says nothing of one.
  init(_ sections: inout YAMLSections, proxy: Proxy?) throws(ConfigurationError) {
    let id = try sections.require("id", example: "news")
    if let problem = Self.problem(ofID: try id.text()) { throw id.error(problem) }
    let credential = try sections.require("credential", example: "{ certificate: news.pem, key: news.key }")
    self.init(
      id: try id.text(), topic: nil, transport: Transport(.binary),
      credential: Credential(try AppCredential(credential)))
    self.proxy = proxy
    for setting in AppSetting.all {
      if let value = try sections.take(setting.key) { try setting.read(value, into: &self) }
    }
    if case .tokenKey = self.credential.settings, !transport.isHTTP2 {
      throw credential.error("names a token key, which only transport: http2 can use; add that, or name a certificate")
    }
  }
}

extension AppSetting {
  fileprivate func read(_ node: YAMLNode, into app: inout AppConfiguration) throws(ConfigurationError) {
    switch (transport, app.transport.name) {
    case (.http2, .binary): throw node.error("needs transport: http2")
    case (.binary, .http2):
      throw node.error("does not fit transport: http2, because only the binary protocol has it; leave it out")
    default: break
    }
    switch value {
    case .integer(let path, let range):
      let number = try node.integer(in: range)
      if key == "connections.max", number < app.connections.lowerBound {
        throw node.error("(\(number)) is below connections.min (\(app.connections.lowerBound)); exchange them")
      }
      app[keyPath: path] = number
    case .byteCount(let path, let range): app[keyPath: path] = try node.byteCount(in: range)
    case .duration(let path, let range): app[keyPath: path] = try node.duration(in: range)
    case .optionalInteger(let path, let range): app[keyPath: path] = try node.integer(in: range)
    case .rate(let path): app[keyPath: path] = try node.rate()
    case .text(let path): app[keyPath: path] = try node.text()
    case .file(let path): app[keyPath: path] = try node.filePath()
    case .gateway(let path):
      guard let endpoint = Endpoint(try node.text()) else {
        throw node.error("must be host:port, as in gateway.example.com:2195, not \(try node.text().cited)")
      }
      app[keyPath: path] = AppConfiguration.Gateway(endpoint)
    case .proxy(let path): app[keyPath: path] = try AppConfiguration.Proxy.read(node)
    case .word(let path, let words): app[keyPath: path] = try node.word(of: words)
    }
  }
}

extension AppConfiguration.Proxy {
  /// What the file has for all apps.
  static func forAll(_ reader: inout YAMLReader) throws(ConfigurationError) -> AppConfiguration.Proxy? {
    guard let value = reader.take("proxy") else { return nil }
    return try read(value)
  }

  /// `none`, or `{ url, username, password-file, trust }`.
  fileprivate static func read(_ node: YAMLNode) throws(ConfigurationError) -> AppConfiguration.Proxy? {
    if case .text("none") = node.content { return nil }
    var reader = try YAMLReader(node)
    let url = try reader.require("url", example: "http://proxy.example.com:3128")
    let text = try url.text()
    var proxy: AppConfiguration.Proxy
    do throws(ValueError) { proxy = try AppConfiguration.Proxy(url: text) } catch {
      throw url.error(error.problem)
    }
    let username = try reader.take("username")?.text()
    let passwordFile = try reader.take("password-file")?.filePath()
    proxy.trustedAuthorities = try reader.take("trust")?.filePath()
    try reader.finish()
    switch (username, passwordFile) {
    case (nil, nil): break
    case (let username?, let file?): proxy.login = .username(username, passwordFile: file)
    default: throw node.error("needs both username and password-file, or none of them")
    }
    if let problem = proxy.problem { throw node.error(problem) }
    return proxy
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
          + "{ key: AuthKey.p8, key-id, team-id }")
    }
  }
}

extension DeploymentConfiguration {
  /// The app with this id; without one, the only app there is.
  package func app(_ id: String?, file: String) throws(CarillonError) -> AppConfiguration {
    let ids = apps.map(\.id)
    guard let id else {
      guard apps.count == 1 else {
        throw CarillonError(
          .configuration, "\(file) has several apps, so one must be named: \(ids.joined(separator: ", "))")
      }
      return apps[0]
    }
    if let found = apps.first(where: { $0.id == id }) { return found }
    let advice =
      Suggestion.nearest(to: id, in: ids).map { "did you mean \"\($0)\"?" } ?? "it has \(ids.joined(separator: ", "))."
    throw CarillonError(.configuration, "\(file) has no app \"\(id)\"; \(advice)")
  }
}
