internal import ArgumentParser
internal import Carillon
internal import PushGateway
internal import PushServer

/// The most common fault rules as flags: the same tree as a rules file has, with the same meaning.
struct FaultOptions: ParsableArguments {
  @Option(help: .init("Refuses tokens that begin with these hexadecimal digits; may be repeated.", valueName: "hex"))
  var refusePrefix: [String] = []
  @Option(help: .init("Refuses this token; may be repeated.", valueName: "hex")) var refuseToken: [String] = []
  @Option(help: .init("Refuses every n-th notification of a connection.", valueName: "n")) var refuseEvery: Int?
  @Option(help: .init("The status of refusals (default: 8, invalid token).", valueName: "1-255"))
  var refuseStatus: Int?
  @Option(help: .init("The reason of refusals over HTTP/2 (default: BadDeviceToken).", valueName: "reason"))
  var refuseReason: String?
  @Option(help: .init("Delays error responses; over HTTP/2, all responses (default: 0ms).", valueName: "duration"))
  var answerDelay: String?
  @Option(
    help: .init(
      "The round-trip time of every connection, half of it each way, also during the TCP handshake (default: 0ms).",
      discussion: "It delays, but does not limit throughput. A client's TLS 1.3 handshake is complete two round "
        + "trips after it began to connect.", valueName: "duration")) var latency: String?
  @Option(
    help: .init(
      "The identifier in error responses: the refused notification's, or always 0 (default: real).",
      valueName: "real|zero"))
  var answerIdentifier: String?
  @Option(
    help: .init(
      "Answers with status 10 (over HTTP/2: GOAWAY) after n accepted notifications of a connection.", valueName: "n"))
  var shutdownAfter: Int?
  @Option(help: .init("Closes the connection without a response after n.", valueName: "n")) var closeAfter: Int?
  @Option(help: .init("Resets the connection after n.", valueName: "n")) var resetAfter: Int?
  @Option(help: .init("Stops reading after n, for the time of --stop-reading-for.", valueName: "n"))
  var stopReadingAfter: Int?
  @Option(help: .init("How long it stops reading (default: 1s).", valueName: "duration")) var stopReadingFor: String?
  @Option(
    help: .init(
      "Closes the connection without a response at tokens that begin with these hexadecimal digits; may be repeated.",
      valueName: "hex")) var poisonPrefix: [String] = []
  @Option(help: .init("Closes the connection without a response at this token; may be repeated.", valueName: "hex"))
  var poisonToken: [String] = []
  @Option(
    help: .init(
      "Over HTTP/2: answers every request with 503 ServiceUnavailable for this time (default: never).",
      valueName: "duration"))
  var outageFor: String?
  @Option(
    help: .init(
      "The start of the outage, counted from an app's first connection (default: 0ms).", valueName: "duration"))
  var outageFrom: String?
  @Option(
    help: .init(
      "Over HTTP/2: sends bytes that are not HTTP/2 after n requests of a connection, and closes; 0: at once.",
      valueName: "n")
  ) var garbageAfter: Int?
  @Option(
    help: .init(
      "The environment; a certificate for the other environment only is refused (default: production).",
      valueName: "production|sandbox")) var environment: String?
  @Flag(help: "Refuses every client certificate.") var refuseCertificate = false
  @Option(
    help: .init(
      "The largest payload for all commands, in bytes (default: 256 for commands 0 and 1, 2048 for 2).", valueName: "n")
  ) var payloadLimit: Int?
  @Flag(help: "Accepts payloads that are not JSON, for measuring other senders.") var acceptAnyPayload = false

  func check() throws {
    if refusePrefix.isEmpty, refuseToken.isEmpty, refuseEvery == nil {
      try Options.require(
        "--refuse-prefix, --refuse-token or --refuse-every",
        for: [("--refuse-status", refuseStatus != nil), ("--refuse-reason", refuseReason != nil)])
    }
    if stopReadingAfter == nil {
      try Options.require("--stop-reading-after", for: [("--stop-reading-for", stopReadingFor != nil)])
    }
    if outageFor == nil { try Options.require("--outage-for", for: [("--outage-from", outageFrom != nil)]) }
    let tree = try tree()
    do throws(FaultRulesError) { _ = try FaultRules(.map(tree)) } catch {
      throw ValidationError("--\(flag(for: error.path)): \(error.problem).")
    }
  }

  /// The flags as keys of a rules file, so that there is one definition of their meaning.
  private func tree() throws -> [String: RuleTree] {
    let answerDelay = try Self.duration(answerDelay, flag: "--answer-delay")
    let latency = try Self.duration(latency, flag: "--latency")
    let outage = try Self.duration(outageFor, flag: "--outage-for")
    let outageStart = try Self.duration(outageFrom, flag: "--outage-from") ?? .text("0ms")
    let stopTime = try Self.duration(stopReadingFor, flag: "--stop-reading-for") ?? .text("1000ms")
    var refuse = Self.selection(refusePrefix, refuseToken)
    refuse["every"] = refuseEvery.map(Self.number)
    let poison = Self.selection(poisonPrefix, poisonToken)
    var http2: [String: RuleTree] = [:]
    if !refuse.isEmpty {
      http2["refuse"] = Self.rule(refuse.merging(refuseReason.map { ["reason": .text($0)] } ?? [:]) { $1 })
    }
    http2["delay"] = answerDelay.map { .map(["fixed": $0]) }
    http2["poison"] = Self.rule(poison)
    http2["outage"] = outage.map { .map(["for": $0, "from": outageStart]) }
    http2["garbage"] = garbageAfter.map { .map(["after": Self.number($0)]) }
    http2["goaway"] = shutdownAfter.map { .map(["after": Self.number($0), "reason": .text("Shutdown")]) }
    let cuts = [(closeAfter, "close"), (resetAfter, "reset")].compactMap { after, how in
      after.map { RuleTree.map(["after": Self.number($0), "how": .text(how)]) }
    }
    if !cuts.isEmpty { http2["cut"] = .list(cuts) }
    refuse["status"] = refuseStatus.map(Self.number)

    var tree: [String: RuleTree] = [:]
    tree["poison"] = Self.rule(poison)
    tree["environment"] = environment.map(RuleTree.text)
    if !http2.isEmpty { tree["http2"] = .map(http2) }
    tree["refuse"] = Self.rule(refuse)
    tree["answer-delay"] = answerDelay
    tree["latency"] = latency
    tree["answer-identifier"] = answerIdentifier.map(RuleTree.text)
    for (name, after) in [("shutdown", shutdownAfter), ("close", closeAfter), ("reset", resetAfter)] {
      tree[name] = after.map { .map(["after": Self.number($0)]) }
    }
    tree["stop-reading"] = stopReadingAfter.map { .map(["after": Self.number($0), "for": stopTime]) }
    if refuseCertificate { tree["refuse-certificate"] = .text("true") }
    tree["payload-limits"] = payloadLimit.map(Self.number).map {
      .map(["simple": $0, "enhanced": $0, "framed": $0])
    }
    return tree
  }

  private static func selection(_ prefixes: [String], _ tokens: [String]) -> [String: RuleTree] {
    var tree: [String: RuleTree] = [:]
    if !prefixes.isEmpty { tree["prefixes"] = .list(prefixes.map(RuleTree.text)) }
    if !tokens.isEmpty { tree["tokens"] = .list(tokens.map(RuleTree.text)) }
    return tree
  }

  /// A list with one rule; nil if it has no keys.
  private static func rule(_ keys: [String: RuleTree]) -> RuleTree? { keys.isEmpty ? nil : .list([.map(keys)]) }
  private static func number(_ value: Int) -> RuleTree { .text(String(value)) }

  private static func duration(_ text: String?, flag: String) throws -> RuleTree? {
    try text.map { text in
      let (seconds, attoseconds) = try Options.duration(text, flag: flag).components
      return .text("\(seconds * 1000 + attoseconds / 1_000_000_000_000_000)ms")
    }
  }

  /// The rules of a file, with the flags in place of the same keys at its top.
  func rules(file: String?) throws -> FaultRules {
    let tree = try tree()
    var rules = try failing(flag: "--rules") {
      try file.map { try FaultRules.read(file: $0, overrides: tree) } ?? FaultRules(.map(tree))
    }
    rules.checksJSON = !acceptAnyPayload
    return rules
  }

  /// The flag that set the value at a path of the tree.
  private func flag(for path: String) -> String {
    let flags = [
      "refuse[0].prefixes": "refuse-prefix", "refuse[0].tokens": "refuse-token", "refuse[0].every": "refuse-every",
      "refuse[0].status": "refuse-status", "poison[0].prefixes": "poison-prefix", "poison[0].tokens": "poison-token",
      "http2.poison[0].prefixes": "poison-prefix", "http2.poison[0].tokens": "poison-token",
      "http2.outage.for": "outage-for", "http2.outage.from": "outage-from", "http2.garbage": "garbage-after",
      "shutdown": "shutdown-after", "close": "close-after", "reset": "reset-after",
      "stop-reading.for": "stop-reading-for", "stop-reading": "stop-reading-after", "payload-limits": "payload-limit",
      "http2.refuse[0].prefixes": "refuse-prefix", "http2.refuse[0].tokens": "refuse-token",
      "http2.refuse[0].every": "refuse-every", "http2.refuse[0]": "refuse-reason", "http2.goaway": "shutdown-after",
      "http2.cut[0]": closeAfter == nil ? "reset-after" : "close-after", "http2.cut[1]": "reset-after",
      "http2.delay": "answer-delay",
    ]
    return flags.sorted { $0.key.count > $1.key.count }.first { path.hasPrefix($0.key) }?.value ?? path
  }
}
