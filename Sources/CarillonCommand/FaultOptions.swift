internal import ArgumentParser
internal import Carillon
internal import PushGateway
internal import PushServer

/// The most common fault rules as flags. They become the same tree as a rules file, so that there is one meaning.
struct FaultOptions: ParsableArguments {
  @Option(help: ArgumentHelp("Refuses tokens that begin with these hexadecimal digits; may be repeated.", valueName: "hex")) var refusePrefix: [String] = []
  @Option(help: ArgumentHelp("Refuses this token; may be repeated.", valueName: "hex")) var refuseToken: [String] = []
  @Option(help: ArgumentHelp("Refuses every n-th notification of a connection.", valueName: "n")) var refuseEvery: Int?
  @Option(help: ArgumentHelp("The status of a refusal (default: 8, invalid token).", valueName: "1-255")) var refuseStatus: Int?
  @Option(help: ArgumentHelp("The reason of a refusal over HTTP/2 (default: BadDeviceToken).", valueName: "reason")) var refuseReason: String?
  @Option(help: ArgumentHelp("How late error responses are, over HTTP/2 all answers (default: 0ms).", valueName: "duration")) var answerDelay: String?
  @Option(
    help: ArgumentHelp(
      "The round trip of every connection, half of it each way, including the TCP handshake's round trip (default: 0ms).",
      discussion: "It delays and does not throttle. A client's TLS 1.3 handshake is complete two round trips after it began to connect.",
      valueName: "duration"))
  var latency: String?
  @Option(help: ArgumentHelp("What error responses name: the refused notification, or always 0 (default: real).", valueName: "real|zero"))
  var answerIdentifier: String?
  @Option(help: ArgumentHelp("Answers status 10 (over HTTP/2: GOAWAY) after so many accepted notifications of a connection.", valueName: "n"))
  var shutdownAfter: Int?
  @Option(help: ArgumentHelp("Closes without a word after so many.", valueName: "n")) var closeAfter: Int?
  @Option(help: ArgumentHelp("Resets the connection after so many.", valueName: "n")) var resetAfter: Int?
  @Option(help: ArgumentHelp("Stops reading after so many, for --stop-reading-for.", valueName: "n")) var stopReadingAfter: Int?
  @Option(help: ArgumentHelp("How long it does not read (default: 1s).", valueName: "duration")) var stopReadingFor: String?
  @Option(
    help: ArgumentHelp("Ends the connection without a word at tokens that begin with these hexadecimal digits; may be repeated.", valueName: "hex"))
  var poisonPrefix: [String] = []
  @Option(help: ArgumentHelp("Ends the connection without a word at this token; may be repeated.", valueName: "hex")) var poisonToken: [String] = []
  @Option(help: ArgumentHelp("Over HTTP/2: answers 503 ServiceUnavailable to everything for so long (default: never).", valueName: "duration"))
  var outageFor: String?
  @Option(help: ArgumentHelp("When that begins, counted from an app's first connection (default: 0ms).", valueName: "duration")) var outageFrom: String?
  @Option(
    help: ArgumentHelp("Over HTTP/2: sends what is none after so many requests of a connection, and closes; 0: at once.", valueName: "n"))
  var garbageAfter: Int?
  @Option(help: ArgumentHelp("Which service it is: a certificate for the other alone is refused (default: production).", valueName: "production|sandbox"))
  var environment: String?
  @Flag(help: "Refuses every client certificate.") var refuseCertificate = false
  @Option(help: ArgumentHelp("The largest payload for all commands, in bytes (default: 256 for commands 0 and 1, 2048 for 2).", valueName: "n"))
  var payloadLimit: Int?
  @Flag(help: "Takes payloads that are no JSON, for measuring other senders.") var acceptAnyPayload = false

  func check() throws {
    if refuseStatus != nil, refusePrefix.isEmpty, refuseToken.isEmpty, refuseEvery == nil {
      throw ValidationError("--refuse-status needs --refuse-prefix, --refuse-token or --refuse-every, which say what to refuse.")
    }
    if refuseReason != nil, refusePrefix.isEmpty, refuseToken.isEmpty, refuseEvery == nil {
      throw ValidationError("--refuse-reason needs --refuse-prefix, --refuse-token or --refuse-every, which say what to refuse.")
    }
    if stopReadingFor != nil, stopReadingAfter == nil { throw ValidationError("--stop-reading-for needs --stop-reading-after.") }
    if outageFrom != nil, outageFor == nil { throw ValidationError("--outage-from needs --outage-for.") }
    let tree = try tree()
    do throws(FaultRulesError) {
      _ = try FaultRules(.map(tree))
    } catch {
      throw ValidationError("--\(flag(for: error.path)): \(error.problem).")
    }
  }

  /// The keys of a rules file that the flags set.
  func tree() throws -> [String: RuleTree] {
    var tree: [String: RuleTree] = [:]
    var refuse: [String: RuleTree] = [:]
    if !refusePrefix.isEmpty { refuse["prefixes"] = .list(refusePrefix.map(RuleTree.text)) }
    if !refuseToken.isEmpty { refuse["tokens"] = .list(refuseToken.map(RuleTree.text)) }
    if let refuseEvery { refuse["every"] = Self.number(refuseEvery) }
    let poison = poisonTree
    if !poison.isEmpty { tree["poison"] = .list([.map(poison)]) }
    if let environment { tree["environment"] = .text(environment) }
    let http2 = try http2Tree(refuse)
    if !http2.isEmpty { tree["http2"] = .map(http2) }
    if let refuseStatus { refuse["status"] = Self.number(refuseStatus) }
    if !refuse.isEmpty { tree["refuse"] = .list([.map(refuse)]) }
    if let answerDelay { tree["answer-delay"] = .text(try Self.milliseconds(answerDelay, flag: "--answer-delay")) }
    if let latency { tree["latency"] = .text(try Self.milliseconds(latency, flag: "--latency")) }
    if let answerIdentifier { tree["answer-identifier"] = .text(answerIdentifier) }
    if let shutdownAfter { tree["shutdown"] = .map(["after": Self.number(shutdownAfter)]) }
    if let closeAfter { tree["close"] = .map(["after": Self.number(closeAfter)]) }
    if let resetAfter { tree["reset"] = .map(["after": Self.number(resetAfter)]) }
    if let stopReadingAfter {
      tree["stop-reading"] = .map([
        "after": Self.number(stopReadingAfter), "for": .text(try Self.milliseconds(stopReadingFor ?? "1s", flag: "--stop-reading-for")),
      ])
    }
    if refuseCertificate { tree["refuse-certificate"] = .text("true") }
    if let payloadLimit {
      tree["payload-limits"] = .map(["simple": Self.number(payloadLimit), "enhanced": Self.number(payloadLimit), "framed": Self.number(payloadLimit)])
    }
    return tree
  }

  private var poisonTree: [String: RuleTree] {
    var tree: [String: RuleTree] = [:]
    if !poisonPrefix.isEmpty { tree["prefixes"] = .list(poisonPrefix.map(RuleTree.text)) }
    if !poisonToken.isEmpty { tree["tokens"] = .list(poisonToken.map(RuleTree.text)) }
    return tree
  }

  /// The same in the terms of the HTTP/2 service.
  private func http2Tree(_ selection: [String: RuleTree]) throws -> [String: RuleTree] {
    var tree: [String: RuleTree] = [:]
    if !selection.isEmpty { tree["refuse"] = .list([.map(selection.merging(refuseReason.map { ["reason": .text($0)] } ?? [:]) { $1 })]) }
    if let answerDelay { tree["delay"] = .map(["fixed": .text(try Self.milliseconds(answerDelay, flag: "--answer-delay"))]) }
    let poison = poisonTree
    if !poison.isEmpty { tree["poison"] = .list([.map(poison)]) }
    if let outageFor {
      tree["outage"] = .map([
        "for": .text(try Self.milliseconds(outageFor, flag: "--outage-for")), "from": .text(try Self.milliseconds(outageFrom ?? "0", flag: "--outage-from")),
      ])
    }
    if let garbageAfter { tree["garbage"] = .map(["after": Self.number(garbageAfter)]) }
    if let shutdownAfter { tree["goaway"] = .map(["after": Self.number(shutdownAfter), "reason": "Shutdown"]) }
    let cuts = [(closeAfter, "close"), (resetAfter, "reset")].compactMap { after, how in after.map { (after: $0, how: how) } }
    if !cuts.isEmpty { tree["cut"] = .list(cuts.map { .map(["after": Self.number($0.after), "how": .text($0.how)]) }) }
    return tree
  }

  private static func number(_ value: Int) -> RuleTree { .text(String(value)) }

  /// A rules file takes whole numbers with a unit; a flag takes what the other commands take.
  private static func milliseconds(_ text: String, flag: String) throws -> String {
    let duration = try Options.duration(text, flag: flag)
    return "\(duration.components.seconds * 1000 + duration.components.attoseconds / 1_000_000_000_000_000)ms"
  }

  /// The flag that set what stands at a path of the tree.
  private func flag(for path: String) -> String {
    let flags = [
      "refuse[0].prefixes": "refuse-prefix", "refuse[0].tokens": "refuse-token", "refuse[0].every": "refuse-every", "refuse[0].status": "refuse-status",
      "poison[0].prefixes": "poison-prefix", "poison[0].tokens": "poison-token", "http2.poison[0].prefixes": "poison-prefix",
      "http2.poison[0].tokens": "poison-token", "http2.outage.for": "outage-for", "http2.outage.from": "outage-from", "http2.garbage": "garbage-after",
      "shutdown": "shutdown-after", "close": "close-after", "reset": "reset-after", "stop-reading.for": "stop-reading-for",
      "stop-reading": "stop-reading-after",
      "payload-limits": "payload-limit", "http2.refuse[0].prefixes": "refuse-prefix", "http2.refuse[0].tokens": "refuse-token",
      "http2.refuse[0].every": "refuse-every", "http2.refuse[0]": "refuse-reason", "http2.goaway": "shutdown-after",
      "http2.cut[0]": closeAfter == nil ? "reset-after" : "close-after", "http2.cut[1]": "reset-after", "http2.delay": "answer-delay",
    ]
    return flags.sorted { $0.key.count > $1.key.count }.first { path.hasPrefix($0.key) }?.value ?? path
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
    var set = try flags.tree()
    // Of the keys for HTTP/2 the flags set some.
    if case .map(let above) = tree["http2"], case .map(let keys) = set["http2"] { set["http2"] = .map(above.merging(keys) { $1 }) }
    tree.merge(set) { $1 }
    do throws(FaultRulesError) {
      var rules = try FaultRules(.map(tree))
      rules.checksJSON = !flags.acceptAnyPayload
      if let file {
        for index in rules.service.keys.indices { rules.service.keys[index].file = FilePath.resolve(rules.service.keys[index].file, besides: file) }
      }
      return rules
    } catch {
      guard let node else { throw CommandFailure.describing(error) }
      let line = find(error.path, in: node)?.line
      throw CommandFailure.usage("--rules: \(ConfigurationError(file: node.file, line: line, problem: "\(error.path) \(error.problem)".trimmingSpace))")
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

extension String {
  /// Without the space that an empty path leaves.
  fileprivate var trimmingSpace: String { hasPrefix(" ") ? String(dropFirst()) : self }
}
