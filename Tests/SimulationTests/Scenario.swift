internal import PushEngine
internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support

/// A random campaign with random faults. The seed determines all of it.
struct Scenario: CustomStringConvertible {
  var seed: UInt64
  var configuration = AppRules(id: "simulated")
  var rules = FaultRules()
  /// Set for a scenario over HTTP/2.
  var provider: ProviderFaults?
  var network = NetworkFaults()
  var tokens: [TokenBytes] = []
  var refused: Set<TokenBytes> = []
  var poisoned: Set<TokenBytes> = []
  var expiration: UInt32?
  var cancelAfter: Duration?
  /// The number of tokens, from the first on, that form a second campaign through the same app,
  /// with a payload for each notification.
  var personalCount = 0
  var features: [String] = []

  /// A campaign ends within this time. With small windows each may need a quiet period.
  var timeLimit: Duration {
    .seconds(4 * 3600) + configuration.policy.quiet * 2 * (tokens.count / configuration.policy.windowCount)
  }

  static let topic = "com.example.simulated"

  var description: String {
    "seed \(seed): \(tokens.count) notifications, command \(configuration.command.rawValue), "
      + "\(configuration.connections.upperBound) lanes, "
      + "\(configuration.policy.confirm.rawValue), on-unknown \(configuration.policy.onUnknown.rawValue), "
      + "\(refused.count) refused, "
      + "\(poisoned.count) poisoned; \(features.joined(separator: ", "))"
  }

  /// Each feature is drawn separately, so that runs differ in kind and not only in degree.
  init(seed: UInt64) {
    self.seed = seed
    var random = SeededGenerator(seed: seed)
    let usualCount = [1, 2, 3, 10, 100, 700, 2_500].randomElement(using: &random) ?? 1
    let distance = Distance(seed: seed)
    let count = distance?.count ?? usualCount
    tokens = Self.distinctTokens(count, random: &random)

    let lanes = [1, 1, 2, 4].randomElement(using: &random) ?? 1
    configuration.connections = Bool.random(using: &random) ? lanes...lanes : 1...lanes
    configuration.command = [.framed, .framed, .enhanced, .simple].randomElement(using: &random) ?? .framed
    configuration.batchByteCount = [1, 300, 4_096, 65_536].randomElement(using: &random) ?? 65_536
    configuration.dialAttempts = 50
    configuration.connectionsPerMinute = 60_000
    var policy = LanePolicy()
    policy.confirm =
      Bool.random(using: &random) || configuration.command == .simple && Bool.random(using: &random) ? .probe : .quiet
    policy.onUnknown = [.resend, .resend, .hold, .drop].randomElement(using: &random) ?? .resend
    policy.hasIdentifiers = configuration.command != .simple
    policy.ringBlockCount = [256, 512, 4_096].randomElement(using: &random) ?? 4_096
    policy.windowCount =
      Bool.random(using: &random) ? policy.ringBlockCount : Int.random(in: 1...policy.ringBlockCount, using: &random)
    policy.quiet = .seconds(Int.random(in: 2...6, using: &random))
    configuration.policy = policy

    var faults = Faults()
    if Bool.random(using: &random) { refuseSome(&faults, &random) }
    if Int.random(in: 0..<4, using: &random) == 0 { poisonSome(&faults, &random) }
    if Bool.random(using: &random) {
      faults.answerDelay = .milliseconds(Int.random(in: 1...400, using: &random))
      features.append("answers \(faults.answerDelay) late")
    }
    addBreakpoints(&faults, &random)
    if Int.random(in: 0..<6, using: &random) == 0 {
      faults.namesRefusedFrame = false
      // "Missing device token" without an identifier would look like a probe's answer, although the
      // frame has a token. No sender could know.
      for index in faults.refuse.indices where faults.refuse[index].status == .missingDeviceToken {
        faults.refuse[index].status = .invalidToken
      }
      features.append("identifier 0")
    }
    if Int.random(in: 0..<6, using: &random) == 0 {
      faults.namesProbe = false
      features.append("probes answered with 0")
    }
    rules.common = faults

    if Int.random(in: 0..<4, using: &random) == 0 {
      network.resetPerMille = Int.random(in: 1...30, using: &random)
      features.append("\(network.resetPerMille)/1000 resets")
    }
    if Int.random(in: 0..<4, using: &random) == 0 {
      network.unreachablePerMille = Int.random(in: 1...300, using: &random)
      features.append("\(network.unreachablePerMille)/1000 unreachable")
    }
    if Bool.random(using: &random) {
      network.highWater = 2_000
      network.bytesPerMillisecond = 20_000
      features.append("slow network")
    }
    if Int.random(in: 0..<5, using: &random) == 0 {
      cancelAfter = .milliseconds(Int.random(in: 0...2_000, using: &random))
      features.append("cancelled")
    }
    if Int.random(in: 0..<8, using: &random) == 0 {
      expiration = 1_700_000_001 + UInt32.random(in: 0...2, using: &random)
      features.append("expires")
    }
    if Int.random(in: 0..<3, using: &random) == 0 {
      personalCount = Int.random(in: 1...tokens.count, using: &random)
      features.append("\(personalCount) in a second campaign")
    }
    if Int.random(in: 0..<6, using: &random) == 0 {
      configuration.rateLimit = Double.random(in: 50...5_000, using: &random)
      features.append("rate limit")
    }
    addLateAlerts()
    if let distance { add(distance) }
    addOutage()
  }

  /// From a generator of its own, so that the runs of earlier seeds stay the same.
  private mutating func addLateAlerts() {
    var random = SeededGenerator(seed: seed ^ 0xA1E7)
    guard Int.random(in: 0..<8, using: &random) == 0 else { return }
    network.lateAlertPerMille = Int.random(in: 50...500, using: &random)
    features.append("\(network.lateAlertPerMille)/1000 late alerts")
  }

  private mutating func refuseSome(_ faults: inout Faults, _ random: inout SeededGenerator) {
    refused = Set(tokens.filter { _ in Int.random(in: 0..<50, using: &random) == 0 }.prefix(12))
    let status =
      GatewayStatus.documented.filter { ![.noErrors, .shutdown].contains($0) }.randomElement(using: &random)
      ?? .invalidToken
    faults.refuse = [Faults.Refuse(Faults.Selection(tokens: refused), status: status)]
  }

  private mutating func poisonSome(_ faults: inout Faults, _ random: inout SeededGenerator) {
    poisoned = Set(
      tokens.filter { !refused.contains($0) }.shuffled(using: &random).prefix(Int.random(in: 1...2, using: &random)))
    faults.poison = [Faults.Selection(tokens: poisoned)]
  }

  private mutating func addBreakpoints(_ faults: inout Faults, _ random: inout SeededGenerator) {
    let connections = Int.random(in: 1...4, using: &random)
    let after = [0, 1, 7, 60, 500].randomElement(using: &random) ?? 7
    let breakpoint = Faults.Breakpoint(after: after, connections: connections)
    switch Int.random(in: 0..<8, using: &random) {
    case 0: (faults.close, features) = (breakpoint, features + ["close after \(after) on \(connections)"])
    case 1: (faults.reset, features) = (breakpoint, features + ["reset after \(after) on \(connections)"])
    case 2: (faults.shutDown, features) = (breakpoint, features + ["shutdown after \(after) on \(connections)"])
    case 3:
      faults.stopReading = Faults.Pause(breakpoint, duration: .milliseconds(Int.random(in: 10...1_000, using: &random)))
      features.append("stops reading after \(after) on \(connections)")
    default: break
    }
  }

  static func distinctTokens(_ count: Int, seed: UInt64) -> [TokenBytes] {
    var random = SeededGenerator(seed: seed)
    return distinctTokens(count, random: &random)
  }

  private static func distinctTokens(_ count: Int, random: inout SeededGenerator) -> [TokenBytes] {
    (0..<count).compactMap { index in
      var bytes = random.bytes(32)
      for place in 0..<4 { bytes[place] = UInt8(truncatingIfNeeded: index >> (8 * place)) }
      return TokenBytes(bytes: bytes)
    }
  }
}
