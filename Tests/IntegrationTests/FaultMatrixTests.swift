internal import PushEngine
internal import PushGateway
internal import PushWire
internal import Support
internal import Testing

/// Every fault rule × commands 0, 1 and 2 × 1 and 4 connections, over real TLS.
@Suite struct FaultMatrixTests {
  /// A fault of the gateway.
  enum Fault: String, CaseIterable, Sendable {
    case none
    case refusesListedTokens, refusesPrefix, refusesEveryNth, refusesWithOtherStatus
    case answersLate, answersIdentifierZero, answersProbesWithZero
    case shutsDown, closes, closesAtOnce, resets, stopsReading, poison
    case handshakesSlowly, isFarAway

    /// How many of 300 notifications are refused, or end their connection.
    var badCount: Int {
      switch self {
      case .refusesListedTokens, .refusesPrefix, .refusesWithOtherStatus, .answersLate, .answersIdentifierZero,
        .answersProbesWithZero, .isFarAway:
        2
      case .poison: 1
      default: 0
      }
    }

    func rules(bad: Set<TokenBytes>) -> FaultRules {
      var rules = FaultRules()
      var faults = Faults()
      let listed = Faults.Selection(tokens: bad)
      switch self {
      case .none: break
      case .refusesListedTokens: faults.refuse = [Faults.Refuse(listed)]
      case .refusesPrefix:
        faults.refuse = [Faults.Refuse(Faults.Selection(prefixes: bad.map { String($0.description.prefix(16)) }))]
      case .refusesEveryNth: faults.refuse = [Faults.Refuse(Faults.Selection(every: 90, connections: 3))]
      case .refusesWithOtherStatus: faults.refuse = [Faults.Refuse(listed, status: .processingError)]
      case .answersLate:
        faults.refuse = [Faults.Refuse(listed)]
        faults.answerDelay = .milliseconds(200)
      case .answersIdentifierZero:
        faults.refuse = [Faults.Refuse(listed)]
        faults.namesRefusedFrame = false
      case .answersProbesWithZero:
        faults.refuse = [Faults.Refuse(listed)]
        faults.namesProbe = false
      case .shutsDown: faults.shutDown = Faults.Breakpoint(after: 40, connections: 4)
      case .closes: faults.close = Faults.Breakpoint(after: 40, connections: 2)
      case .closesAtOnce: faults.close = Faults.Breakpoint(after: 0, connections: 2)
      case .resets: faults.reset = Faults.Breakpoint(after: 40, connections: 2)
      case .stopsReading:
        faults.stopReading = Faults.Pause(Faults.Breakpoint(after: 40, connections: 2), duration: .milliseconds(300))
      case .poison: faults.poison = [listed]
      case .handshakesSlowly: rules.handshakeDelay = .milliseconds(200)
      case .isFarAway:
        faults.refuse = [Faults.Refuse(listed)]
        rules.latency = .milliseconds(100)
      }
      rules.common = faults
      return rules
    }

    /// Whether error responses name the refused frame.
    func namesRefusals(_ command: FrameVersion) -> Bool { command != .simple && self != .answersIdentifierZero }
  }

  @Test("the account equals the gateway's truth", arguments: Fault.allCases, FrameVersion.allCases)
  func accountEqualsTruth(fault: Fault, command: FrameVersion) async throws {
    for connections in [1, 4] {
      let seed = UInt64(fault.hashValueForSeed * 10 + Int(command.rawValue) + connections)
      var campaign = EndToEnd(tokenCount: 300, seed: seed)
      var random = SeededGenerator(seed: seed)
      let bad = Set(campaign.tokens.shuffled(using: &random).prefix(fault.badCount))
      campaign.rules = fault.rules(bad: bad)
      campaign.configuration.command = command
      campaign.configuration.connections = connections...connections
      campaign.configuration.policy.hasIdentifiers = command != .simple
      // The longest delay of an error response is 200 ms; the rest is a margin for a busy machine.
      // The cases run in parallel, so waiting costs little.
      campaign.configuration.policy.quiet = .seconds(5)
      let result = try await campaign.run()

      var check = AccountCheck(
        tokens: campaign.tokens, account: result.account, outcomes: result.outcomes, arrivals: result.arrivals)
      check.refused = { fault.namesRefusals(command) && (bad.contains($0) || fault == .refusesEveryNth) }
      check.kills = {
        bad.contains($0) && (fault == .poison || !fault.namesRefusals(command))
          || fault == .refusesEveryNth && command == .simple
      }
      let problems = check.problems()
      let title = "\(fault), command \(command.rawValue), \(connections) connections, seed \(seed)"
      #expect(problems.isEmpty, "\(title): \(problems.prefix(5).joined(separator: "; "))")
      #expect(result.failure == nil, "\(title): \(result.failure ?? "")")
      #expect(result.truth.accepted == result.arrivals.values.reduce(0, +))
      if fault != .closes, fault != .resets, fault != .poison, fault.namesRefusals(command) {
        #expect(result.account.rejectedTotal == fault.badCount || fault == .refusesEveryNth)
      }
    }
  }
}

extension FaultMatrixTests.Fault {
  /// The same in every run, unlike a hash value.
  var hashValueForSeed: Int { Self.allCases.firstIndex(of: self) ?? 0 }
}
