internal import ArgumentParser
internal import Carillon
internal import PushServer
internal import PushTransport
internal import PushWire

struct FeedbackCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "feedback",
    abstract: "Reads the list of devices that no longer have the app, to its end.",
    discussion: """
      The service clears the list as it is read. Each entry is written out before the next read, so a broken \
      connection loses no entry that was read.
      Read the list about once a day. Stop sending to its tokens, except those that were registered again after \
      the time given.

        carillon feedback --service feedback.example.com:2196 \\
          --certificate news.pem --key news.key > gone.csv
        carillon feedback --config carillon.yaml --app news --json

      Writes CSV with the header timestamp,token (UNIX seconds, hexadecimal digits), or one object per line with --json.
      Exit status: 0 the list was read to its end, 1 the service closed the connection without closing TLS, so the \
      list may be incomplete, 2 wrong flags or files, 3 no connection, or the connection broke.
      """)

  @Option(
    help: .init(
      "The feedback service (default with --config: the app's gateway host, port 2196).", valueName: "host:port"))
  var service: String?
  @OptionGroup var identity: IdentityOptions
  @OptionGroup var way: ProxyOptions
  @Option(help: .init("A configuration file; --app selects one of its apps.", valueName: "file")) var config: String?
  @Option(help: .init("The app in the configuration file (default: the only one).", valueName: "id")) var app: String?
  @Option(help: .init("Appends to this file (default: standard output).", valueName: "file")) var output: String?
  @Flag(help: "Writes JSON lines instead of CSV.") var json = false

  /// Called by run(), so that the parser reports an unknown flag before a missing one.
  private func check() throws {
    if let service { _ = try Options.endpoint(service, flag: "--service") }
    if config == nil {
      guard service != nil else {
        throw ValidationError("The service is missing: --service HOST:PORT or --config FILE.")
      }
      guard identity.certificate != nil else { throw ValidationError("A credential is missing: --certificate FILE.") }
      if app != nil { throw ValidationError("--app needs --config.") }
    } else {
      try identity.refuse(besides: "--config")
      try Options.exclude(way.given, "--config", because: "the configuration file sets it")
    }
    try identity.check()
    try way.check()
  }

  func run() async throws {
    try check()
    let (endpoint, sender) = try target()
    let credential = try failing {
      try ResolvedCredential.load(sender, registry: ProviderTokenRegistry(), validAt: Int64(NIOLoop.wallClock))
    }
    let entries: any FeedbackOutput =
      if let output {
        try failing(flag: "--output") { try FeedbackFile(path: output, json: json) }
      } else {
        try FeedbackPrinter(json: json)
      }
    let dialer = credential.dialer(to: endpoint)
    let count = try await FeedbackReader(dialer: dialer, endpoint: endpoint, output: entries).run {
      StandardStream.error.writeLine("carillon: \($0.asSentence)")
    }
    StandardStream.error.writeLine("\(count) entr\(count == 1 ? "y" : "ies") read from \(endpoint).")
  }

  private func target() throws -> (Endpoint, AppConfiguration) {
    guard let config else {
      guard let service, let endpoint = Endpoint(service), let files = identity.files else {
        throw CommandFailure.usage("The service or the credential is missing: --service HOST:PORT, --certificate FILE")
      }
      var sender = AppConfiguration(
        id: "app", topic: nil, transport: .binary(), credential: AppConfiguration.Credential(.certificate(files)))
      sender.trustedAuthorities = identity.trust
      sender.proxy = try way.proxyOfFlags()
      return (endpoint, sender)
    }
    let configuration = try failing { try DeploymentConfiguration.read(file: config) }
    let found = try failing(flag: "--app") { try configuration.app(app, file: config) }
    guard !found.transport.isHTTP2 else {
      throw CommandFailure.usage(
        "The app \(found.id) uses HTTP/2, which has no feedback service: its answers say which devices are gone, "
          + "and carillon send --gone FILE lists them")
    }
    return (service.flatMap(Endpoint.init) ?? found.feedbackOrDefault, found)
  }
}

/// Writes entries to standard output, each in a write of its own.
private struct FeedbackPrinter: FeedbackOutput {
  let json: Bool

  init(json: Bool) throws {
    self.json = json
    guard !json, let problem = StandardStream.output.write(Array(FeedbackTuple.csvHeader.utf8)) else { return }
    throw CommandFailure.couldNotRun("The output cannot be written: \(problem)")
  }

  func write(_ tuple: FeedbackTuple) -> String? { StandardStream.output.write(Array(tuple.line(json: json).utf8)) }
  func synchronise() -> String? { nil }
}

/// A proxy on the way to the gateway.
struct ProxyOptions: ParsableArguments {
  @Option(
    help: .init(
      "Connects through this proxy: http://, https:// or socks5:// (default: directly; the environment's is not "
        + "followed).", valueName: "url")) var proxy: String?
  @Option(help: .init("The username that the proxy demands.", valueName: "name")) var proxyUsername: String?
  @Option(help: .init("A file whose first line is the password that the proxy demands.", valueName: "file"))
  var proxyPasswordFile: String?
  @Option(
    help: .init(
      "The trusted authorities for the certificate of an https:// proxy (default: the system's).",
      valueName: "file")) var proxyTrust: String?

  var given: [(String, Bool)] {
    [
      ("--proxy", proxy != nil), ("--proxy-username", proxyUsername != nil),
      ("--proxy-password-file", proxyPasswordFile != nil), ("--proxy-trust", proxyTrust != nil),
    ]
  }

  func check() throws {
    if proxy == nil { try Options.require("--proxy URL", for: given) }
    if proxyUsername == nil {
      try Options.require("--proxy-username NAME", for: [("--proxy-password-file", proxyPasswordFile != nil)])
    } else if proxyPasswordFile == nil {
      throw ValidationError("--proxy-username needs --proxy-password-file FILE.")
    }
    _ = try proxyOfFlags()
  }

  func proxyOfFlags() throws -> AppConfiguration.Proxy? {
    guard let url = proxy else { return nil }
    return try Options.value("--proxy") { () throws(ValueError) in
      var proxy = try AppConfiguration.Proxy(url: url)
      if let proxyUsername, let proxyPasswordFile {
        proxy.login = .username(proxyUsername, passwordFile: proxyPasswordFile)
      }
      proxy.trustedAuthorities = proxyTrust
      if let problem = proxy.problem { throw ValueError(problem) }
      return proxy
    }
  }
}

/// The certificate of the client, and the authorities that it trusts.
struct IdentityOptions: ParsableArguments {
  @Option(help: .init("The app's certificate, PEM or PKCS#12.", valueName: "file")) var certificate: String?
  @Option(help: .init("The key of that certificate (default: the key in the same file).", valueName: "file"))
  var key: String?
  @Option(
    help: .init(
      "A file whose first line is the passphrase of the certificate or key (default: none).", valueName: "file"))
  var passphraseFile: String?
  @Option(
    help: .init("The trusted authorities for the gateway's certificate (default: the system's).", valueName: "file"))
  var trust: String?

  var files: CredentialFiles? {
    certificate.map { CredentialFiles(certificate: $0, key: key, passphraseFile: passphraseFile) }
  }

  func check() throws {
    guard certificate == nil else { return }
    try Options.require("--certificate", for: [("--key", key != nil), ("--passphrase-file", passphraseFile != nil)])
  }

  func refuse(besides other: String, because reason: String = "the configuration file sets it") throws {
    let flags = [
      ("--certificate", certificate), ("--key", key), ("--passphrase-file", passphraseFile), ("--trust", trust),
    ]
    try Options.exclude(flags.map { ($0, $1 != nil) }, other, because: reason)
  }
}
