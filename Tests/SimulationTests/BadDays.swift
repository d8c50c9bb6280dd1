internal import PushEngine
internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support

/// A distant gateway with refusals.
struct Distance {
  var roundTrip: Duration
  /// Refused notifications of 100,000.
  var refusedPer100000: Int
  var count: Int

  /// Uses a generator of its own, so that other parts of a seed's run stay the same. Nil: not for
  /// this seed.
  init?(seed: UInt64) {
    var random = SeededGenerator(seed: seed ^ 0xD159)
    guard Int.random(in: 0..<6, using: &random) == 0 else { return nil }
    let range = [1...3, 10...60, 50...300].randomElement(using: &random) ?? 1...3
    roundTrip = .milliseconds(Int.random(in: range, using: &random))
    refusedPer100000 = [10, 100, 500, 2_000].randomElement(using: &random) ?? 100
    count = [300, 1_000, 4_000].randomElement(using: &random) ?? 300
  }
}

extension Scenario {
  /// Adds a fixed round-trip time, half of it for each delivery and two for opening a connection,
  /// and refuses some tokens.
  mutating func add(_ distance: Distance) {
    let (seconds, attoseconds) = distance.roundTrip.components
    let oneWay = Int(seconds * 500_000 + attoseconds / 2_000_000_000_000)
    network.latency = oneWay...oneWay
    network.dialing = distance.roundTrip * 2
    features.append("distance \(distance.roundTrip), \(distance.refusedPer100000)/100000 refused")
    var random = SeededGenerator(seed: seed ^ 0x2EF5)
    let status = GatewayStatus.documented.filter { ![.noErrors, .shutdown, .missingDeviceToken].contains($0) }
      .randomElement(using: &random)
    var refused = tokens.filter {
      !poisoned.contains($0) && Int.random(in: 0..<100_000, using: &random) < distance.refusedPer100000
    }
    // A refusal without an identifier starts a poison search, with a quiet period for each step.
    if !configuration.policy.hasIdentifiers || !rules.common.namesRefusedFrame { refused = Array(refused.prefix(4)) }
    self.refused = Set(refused)
    rules.common.refuse =
      refused.isEmpty ? [] : [Faults.Refuse(Faults.Selection(tokens: self.refused), status: status ?? .invalidToken)]
  }

  /// For some time the gateway accepts no connection and loses the open ones.
  mutating func addOutage() {
    var random = SeededGenerator(seed: seed ^ 0x007C)
    guard Int.random(in: 0..<8, using: &random) == 0,
      let kind = NetworkFaults.Outage.Kind.allCases.randomElement(using: &random)
    else { return }
    let after = [0, 5, 100, 1_000, 5_000].randomElement(using: &random) ?? 0
    // The last is more than the default patience.
    let lasting = [1, 15, 120, 1_200].randomElement(using: &random) ?? 1
    network.outage = NetworkFaults.Outage(kind: kind, after: .milliseconds(after), duration: .seconds(lasting))
    features.append("outage (\(kind)) after \(after) ms for \(lasting) s")
  }
}
