internal import ArgumentParser
internal import Carillon
internal import Foundation
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
    }
    try identity.check()
  }

  func run() async throws {
    try check()
    let (endpoint, files, trust) = try target()
    let context = try failing {
      let credential = try Credential.load(files, validAt: Int64(Date().timeIntervalSince1970))
      return try TLSContext(
        client: TLSClientConfiguration(credential: credential, trust: trust.map(Trust.file) ?? .system))
    }
    let entries: any FeedbackOutput =
      if let output {
        try failing(flag: "--output") { try FeedbackFile(path: output, json: json) }
      } else {
        try FeedbackPrinter(json: json)
      }
    let dialer = SocketDialer(host: endpoint.host, port: endpoint.port, context: context)
    let count = try await FeedbackReader(dialer: dialer, endpoint: endpoint, output: entries).run {
      StandardStream.error.writeLine("carillon: \($0.asSentence)")
    }
    StandardStream.error.writeLine("\(count) entr\(count == 1 ? "y" : "ies") read from \(endpoint).")
  }

  private func target() throws -> (Endpoint, CredentialFiles, trust: String?) {
    guard let config else {
      guard let service, let endpoint = Endpoint(service), let files = identity.files else {
        throw CommandFailure.usage("The service or the credential is missing: --service HOST:PORT, --certificate FILE")
      }
      return (endpoint, files, identity.trust)
    }
    let configuration = try failing { try DeploymentConfiguration.read(file: config) }
    let found = try failing(flag: "--app") { try configuration.app(app, file: config) }
    guard !found.transport.isHTTP2, let files = found.credential.settings.certificateFiles else {
      throw CommandFailure.usage(
        "The app \(found.id) uses HTTP/2, which has no feedback service: its answers say which devices are gone, "
          + "and carillon send --gone FILE lists them")
    }
    return (service.flatMap(Endpoint.init) ?? found.feedbackOrDefault, files, found.trustedAuthorities)
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
