/// The most common faults, as flags of `carillon simulate`. They are converted to the tree of a
/// rules file, so that there is one definition of their meaning.
package struct FaultShorthand: Sendable {
  package var refusePrefix: [String] = []
  package var refuseToken: [String] = []
  package var refuseEvery: Int?
  package var refuseStatus: Int?
  package var refuseReason: String?
  package var poisonPrefix: [String] = []
  package var poisonToken: [String] = []
  package var answerDelay: Duration?
  package var latency: Duration?
  package var answerIdentifier: String?
  package var shutdownAfter: Int?
  package var closeAfter: Int?
  package var resetAfter: Int?
  package var stopReadingAfter: Int?
  package var stopReadingFor = Duration.seconds(1)
  package var outageFor: Duration?
  package var outageFrom = Duration.zero
  package var garbageAfter: Int?
  package var environment: String?
  package var refuseCertificate = false
  package var payloadLimit: Int?

  package init() {}

  /// The equivalent keys of a rules file.
  package var tree: [String: RuleTree] {
    var tree: [String: RuleTree] = [:]
    var refuse: [String: RuleTree] = [:]
    if !refusePrefix.isEmpty { refuse["prefixes"] = .list(refusePrefix.map(RuleTree.text)) }
    if !refuseToken.isEmpty { refuse["tokens"] = .list(refuseToken.map(RuleTree.text)) }
    if let refuseEvery { refuse["every"] = Self.number(refuseEvery) }
    let poison = poisonTree
    if !poison.isEmpty { tree["poison"] = .list([.map(poison)]) }
    if let environment { tree["environment"] = .text(environment) }
    let http2 = http2Tree(refuse)
    if !http2.isEmpty { tree["http2"] = .map(http2) }
    if let refuseStatus { refuse["status"] = Self.number(refuseStatus) }
    if !refuse.isEmpty { tree["refuse"] = .list([.map(refuse)]) }
    if let answerDelay { tree["answer-delay"] = .text(Self.milliseconds(answerDelay)) }
    if let latency { tree["latency"] = .text(Self.milliseconds(latency)) }
    if let answerIdentifier { tree["answer-identifier"] = .text(answerIdentifier) }
    if let shutdownAfter { tree["shutdown"] = .map(["after": Self.number(shutdownAfter)]) }
    if let closeAfter { tree["close"] = .map(["after": Self.number(closeAfter)]) }
    if let resetAfter { tree["reset"] = .map(["after": Self.number(resetAfter)]) }
    if let stopReadingAfter {
      tree["stop-reading"] = .map([
        "after": Self.number(stopReadingAfter),
        "for": .text(Self.milliseconds(stopReadingFor)),
      ])
    }
    if refuseCertificate { tree["refuse-certificate"] = .text("true") }
    if let payloadLimit {
      tree["payload-limits"] = .map([
        "simple": Self.number(payloadLimit), "enhanced": Self.number(payloadLimit), "framed": Self.number(payloadLimit),
      ])
    }
    return tree
  }

  private var poisonTree: [String: RuleTree] {
    var tree: [String: RuleTree] = [:]
    if !poisonPrefix.isEmpty { tree["prefixes"] = .list(poisonPrefix.map(RuleTree.text)) }
    if !poisonToken.isEmpty { tree["tokens"] = .list(poisonToken.map(RuleTree.text)) }
    return tree
  }

  /// The equivalent rules of the HTTP/2 service.
  private func http2Tree(_ selection: [String: RuleTree]) -> [String: RuleTree] {
    var tree: [String: RuleTree] = [:]
    if !selection.isEmpty {
      tree["refuse"] = .list([.map(selection.merging(refuseReason.map { ["reason": .text($0)] } ?? [:]) { $1 })])
    }
    if let answerDelay {
      tree["delay"] = .map(["fixed": .text(Self.milliseconds(answerDelay))])
    }
    let poison = poisonTree
    if !poison.isEmpty { tree["poison"] = .list([.map(poison)]) }
    if let outageFor {
      tree["outage"] = .map([
        "for": .text(Self.milliseconds(outageFor)),
        "from": .text(Self.milliseconds(outageFrom)),
      ])
    }
    if let garbageAfter { tree["garbage"] = .map(["after": Self.number(garbageAfter)]) }
    if let shutdownAfter { tree["goaway"] = .map(["after": Self.number(shutdownAfter), "reason": "Shutdown"]) }
    let cuts = [(closeAfter, "close"), (resetAfter, "reset")].compactMap { after, how in
      after.map { (after: $0, how: how) }
    }
    if !cuts.isEmpty { tree["cut"] = .list(cuts.map { .map(["after": Self.number($0.after), "how": .text($0.how)]) }) }
    return tree
  }

  private static func number(_ value: Int) -> RuleTree { .text(String(value)) }

  private static func milliseconds(_ duration: Duration) -> String {
    "\(duration.components.seconds * 1000 + duration.components.attoseconds / 1_000_000_000_000_000)ms"
  }
}
