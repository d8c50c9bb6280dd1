internal import PushEngine
internal import PushTransport
internal import PushWire
internal import Support

extension Scenario {
  /// A random campaign over HTTP/2 with random faults. The seed determines all of it.
  static func http2(seed: UInt64) -> Scenario {
    var random = SeededGenerator(seed: seed ^ 0x4832)
    var scenario = Scenario(seed: seed)
    var settings = HTTP2Settings.simulated()
    settings.policy.timeout = .seconds(Int.random(in: 5...30, using: &random))
    settings.policy.pingTimeout = .seconds(Int.random(in: 2...30, using: &random))
    settings.streamLimit = [1, 3, 1000].randomElement(using: &random) ?? 1000
    settings.policy.backoff = .milliseconds(200) ... .seconds(5)
    settings.policy.tokenDelay = .milliseconds(200) ... .seconds(5)
    if Bool.random(using: &random) { settings.breaker = nil }
    scenario.configuration.transport = .http2(settings)
    scenario.configuration.command = .framed
    scenario.configuration.policy.hasIdentifiers = true
    scenario.configuration.policy.attempts = [1, 2, 5, 50].randomElement(using: &random) ?? 5
    scenario.features = scenario.features.filter { feature in
      ["network", "1000 resets", "1000 unreachable", "cancel", "second", "distance", "outage"].contains {
        feature.contains($0)
      }
    }
    scenario.poisoned = []
    scenario.network.lateAlertPerMille = 0
    scenario.addProviderFaults(&random)
    return scenario
  }

  private mutating func addProviderFaults(_ random: inout SeededGenerator) {
    var faults = ProviderFaults()
    var features: [String] = []
    func perMille(_ name: String, oneIn chance: Int, _ range: ClosedRange<Int>) -> Int {
      guard Int.random(in: 0..<chance, using: &random) == 0 else { return 0 }
      let value = Int.random(in: range, using: &random)
      features.append("\(value)/1000 \(name)")
      return value
    }
    refused =
      refused.isEmpty && Bool.random(using: &random)
      ? Set(tokens.filter { _ in Int.random(in: 0..<50, using: &random) == 0 }) : refused
    let refusals: [(UInt16, ProviderReason)] = [
      (400, .badDeviceToken), (410, .unregistered), (413, .payloadTooLarge), (400, .badCollapseIdentifier),
    ]
    for token in tokens where refused.contains(token) { faults.refused[token] = refusals.randomElement(using: &random) }
    faults.unavailablePerMille = perMille("5xx", oneIn: 3, 1...300)
    faults.tooManyPerMille = perMille("429", oneIn: 4, 1...100)
    faults.refusedStreamPerMille = perMille("refused streams", oneIn: 4, 1...200)
    faults.resetPerMille = perMille("reset streams", oneIn: 5, 1...50)
    faults.silentPerMille = perMille("silent", oneIn: 5, 1...30)
    faults.cutPerMille = perMille("cuts", oneIn: 5, 1...20)
    faults.oddPerMille = perMille("odd answers", oneIn: 8, 1...30)
    faults.shutdownPerMille = perMille("shutdown answers", oneIn: 6, 1...30)
    if Int.random(in: 0..<3, using: &random) == 0 {
      faults.goAwayAfter = [1, 5, 40, 300].randomElement(using: &random)
      features.append("GOAWAY after \(faults.goAwayAfter ?? 0)")
    }
    if Int.random(in: 0..<6, using: &random) == 0 {
      faults.deafAfter = [0, 3, 50].randomElement(using: &random)
      faults.deafConnections = Int.random(in: 1...3, using: &random)
      features.append("silent after \(faults.deafAfter ?? 0) on \(faults.deafConnections)")
    }
    faults.streamLimit = [1, 2, 10, 100, 1000].randomElement(using: &random) ?? 100
    faults.startsAtOne = Bool.random(using: &random)
    faults.limitChanges = Int.random(in: 0..<3, using: &random) == 0
    if Int.random(in: 0..<10, using: &random) == 0 {
      faults.forbiddenFrom = [0, 10, 300].randomElement(using: &random)
      features.append("forbidden from \(faults.forbiddenFrom ?? 0)")
    }
    faults.processing = 0...([0, 5, 100, 2_000].randomElement(using: &random) ?? 5)
    features.append(
      "limit \(faults.streamLimit)\(faults.startsAtOne ? " from 1" : "")"
        + "\(faults.limitChanges ? ", changing" : ""), \(faults.processing) ms")
    self.features += features
    provider = faults
    addLaterProviderFaults()
  }

  /// From a generator of its own, so that the runs of earlier seeds stay the same.
  private mutating func addLaterProviderFaults() {
    var random = SeededGenerator(seed: seed ^ 0x00D7)
    if Int.random(in: 0..<6, using: &random) == 0 {
      let (from, seconds) = (pick([0, 1, 10, 300], &random), pick([2, 15, 120], &random))
      provider?.outage = (from, .seconds(seconds))
      features.append("nothing but 503 from \(from) for \(seconds) s")
    }
    if Int.random(in: 0..<6, using: &random) == 0 {
      let cutting = tokens.filter { !refused.contains($0) }.shuffled(using: &random).prefix(
        Int.random(in: 1...2, using: &random))
      provider?.cutting = Set(cutting)
      features.append("\(cutting.count) cut the connection")
    }
    if Int.random(in: 0..<10, using: &random) == 0 {
      network.lateAlertPerMille = Int.random(in: 50...500, using: &random)
      network.lateAlertDelay = 10...[20, 300, 9_000][Int.random(in: 0..<3, using: &random)]
      features.append("\(network.lateAlertPerMille)/1000 late alerts")
    }
  }

  private func pick(_ values: [Int], _ random: inout SeededGenerator) -> Int {
    values.randomElement(using: &random) ?? 0
  }
}
