internal import ArgumentParser
internal import Carillon
internal import PushGateway
internal import PushServer

/// The most common fault rules as flags. They become the same tree as a rules file, so that there
/// is one meaning.
struct FaultOptions: ParsableArguments {
  @Option(help: .init("Refuses tokens that begin with these hexadecimal digits; may be repeated.", valueName: "hex"))
  var refusePrefix: [String] = []
  @Option(help: .init("Refuses this token; may be repeated.", valueName: "hex")) var refuseToken: [String] = []
  @Option(help: .init("Refuses every n-th notification of a connection.", valueName: "n")) var refuseEvery: Int?
  @Option(help: .init("The status of a refusal (default: 8, invalid token).", valueName: "1-255"))
  var refuseStatus: Int?
  @Option(help: .init("The reason of a refusal over HTTP/2 (default: BadDeviceToken).", valueName: "reason"))
  var refuseReason: String?
  @Option(help: .init("How late error responses are, over HTTP/2 all answers (default: 0ms).", valueName: "duration"))
  var answerDelay: String?
  @Option(
    help: .init(
      "The round trip of every connection, half of it each way, including the TCP handshake's round trip "
        + "(default: 0ms).",
      discussion: "It delays and does not throttle. A client's TLS 1.3 handshake is complete two round trips after "
        + "it began to connect.", valueName: "duration")) var latency: String?
  @Option(
    help: .init(
      "What error responses name: the refused notification, or always 0 (default: real).", valueName: "real|zero"))
  var answerIdentifier: String?
  @Option(
    help: .init(
      "Answers status 10 (over HTTP/2: GOAWAY) after so many accepted notifications of a connection.", valueName: "n"))
  var shutdownAfter: Int?
  @Option(help: .init("Closes without a word after so many.", valueName: "n")) var closeAfter: Int?
  @Option(help: .init("Resets the connection after so many.", valueName: "n")) var resetAfter: Int?
  @Option(help: .init("Stops reading after so many, for --stop-reading-for.", valueName: "n"))
  var stopReadingAfter: Int?
  @Option(help: .init("How long it does not read (default: 1s).", valueName: "duration")) var stopReadingFor: String?
  @Option(
    help: .init(
      "Ends the connection without a word at tokens that begin with these hexadecimal digits; may be repeated.",
      valueName: "hex")) var poisonPrefix: [String] = []
  @Option(help: .init("Ends the connection without a word at this token; may be repeated.", valueName: "hex"))
  var poisonToken: [String] = []
  @Option(
    help: .init(
      "Over HTTP/2: answers 503 ServiceUnavailable to everything for so long (default: never).", valueName: "duration"))
  var outageFor: String?
  @Option(
    help: .init("When that begins, counted from an app's first connection (default: 0ms).", valueName: "duration"))
  var outageFrom: String?
  @Option(
    help: .init(
      "Over HTTP/2: sends what is none after so many requests of a connection, and closes; 0: at once.", valueName: "n")
  ) var garbageAfter: Int?
  @Option(
    help: .init(
      "Which service it is: a certificate for the other alone is refused (default: production).",
      valueName: "production|sandbox")) var environment: String?
  @Flag(help: "Refuses every client certificate.") var refuseCertificate = false
  @Option(
    help: .init(
      "The largest payload for all commands, in bytes (default: 256 for commands 0 and 1, 2048 for 2).", valueName: "n")
  ) var payloadLimit: Int?
  @Flag(help: "Takes payloads that are no JSON, for measuring other senders.") var acceptAnyPayload = false

  func check() throws {
    if refuseStatus != nil, refusePrefix.isEmpty, refuseToken.isEmpty, refuseEvery == nil {
      throw ValidationError(
        "--refuse-status needs --refuse-prefix, --refuse-token or --refuse-every, which say what to refuse.")
    }
    if refuseReason != nil, refusePrefix.isEmpty, refuseToken.isEmpty, refuseEvery == nil {
      throw ValidationError(
        "--refuse-reason needs --refuse-prefix, --refuse-token or --refuse-every, which say what to refuse.")
    }
    if stopReadingFor != nil, stopReadingAfter == nil {
      throw ValidationError("--stop-reading-for needs --stop-reading-after.")
    }
    if outageFrom != nil, outageFor == nil { throw ValidationError("--outage-from needs --outage-for.") }
    let shorthand = try shorthand()
    do throws(FaultRulesError) { _ = try FaultRules(.map(shorthand.tree)) } catch {
      throw ValidationError("--\(shorthand.flag(for: error.path)): \(error.problem).")
    }
  }

  /// What the flags say.
  func shorthand() throws -> FaultShorthand {
    var rules = FaultShorthand()
    (rules.refusePrefix, rules.refuseToken, rules.refuseEvery) = (refusePrefix, refuseToken, refuseEvery)
    (rules.refuseStatus, rules.refuseReason) = (refuseStatus, refuseReason)
    (rules.poisonPrefix, rules.poisonToken) = (poisonPrefix, poisonToken)
    (rules.shutdownAfter, rules.closeAfter, rules.resetAfter) = (shutdownAfter, closeAfter, resetAfter)
    (rules.garbageAfter, rules.stopReadingAfter) = (garbageAfter, stopReadingAfter)
    (rules.answerIdentifier, rules.environment) = (answerIdentifier, environment)
    (rules.refuseCertificate, rules.payloadLimit) = (refuseCertificate, payloadLimit)
    rules.answerDelay = try answerDelay.map { try Options.duration($0, flag: "--answer-delay") }
    rules.latency = try latency.map { try Options.duration($0, flag: "--latency") }
    rules.outageFor = try outageFor.map { try Options.duration($0, flag: "--outage-for") }
    if let outageFrom { rules.outageFrom = try Options.duration(outageFrom, flag: "--outage-from") }
    if let stopReadingFor { rules.stopReadingFor = try Options.duration(stopReadingFor, flag: "--stop-reading-for") }
    return rules
  }
}

/// Reads fault rules from YAML; the gateway itself knows nothing of files.
enum RulesFile {
  /// What the file says, with what the flags say in place of the same keys at its top.
  static func rules(file: String?, flags: FaultOptions) throws -> FaultRules {
    var tree: [String: RuleTree] = [:]
    let node = try file.map { file in try failing(flag: "--rules") { try YAMLNode.read(file: file) } }
    if let node {
      guard case .map(let entries) = convert(node) else {
        throw CommandFailure.usage("--rules: \(node.error("must hold keys and values, as in \"answer-delay: 200ms\""))")
      }
      tree = entries
    }
    var set = try flags.shorthand().tree
    // Of the keys for HTTP/2 the flags set some.
    if case .map(let above) = tree["http2"], case .map(let keys) = set["http2"] {
      set["http2"] = .map(above.merging(keys) { $1 })
    }
    tree.merge(set) { $1 }
    do throws(FaultRulesError) {
      var rules = try FaultRules(.map(tree))
      rules.checksJSON = !flags.acceptAnyPayload
      if let file {
        for index in rules.service.keys.indices {
          rules.service.keys[index].file = FilePath.resolve(rules.service.keys[index].file, besides: file)
        }
      }
      return rules
    } catch {
      guard let node else { throw CommandFailure.describing(error) }
      let line = find(error.path, in: node)?.line
      let problem = error.path.isEmpty ? error.problem : "\(error.path) \(error.problem)"
      throw CommandFailure.usage("--rules: \(ConfigurationError(file: node.file, line: line, problem: problem))")
    }
  }

  private static func convert(_ node: YAMLNode) -> RuleTree {
    switch node.content {
    case .text(let text): .text(text)
    case .list(let nodes): .list(nodes.map(convert))
    case .map(let entries): .map(Dictionary(entries.map { ($0.key, convert($0.value)) }) { _, last in last })
    }
  }

  private static func find(_ path: String, in node: YAMLNode) -> YAMLNode? {
    if node.path == path { return node }
    switch node.content {
    case .text: return nil
    case .list(let nodes): return nodes.lazy.compactMap { find(path, in: $0) }.first
    case .map(let entries): return entries.lazy.compactMap { find(path, in: $0.value) }.first
    }
  }
}
