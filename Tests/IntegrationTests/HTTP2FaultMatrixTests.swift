internal import PushEngine
internal import PushGateway
internal import PushWire
internal import Support
internal import Testing

/// Every fault of the HTTP/2 service × certificate and token × 1 and 4 connections, over real TLS.
@Suite struct HTTP2FaultMatrixTests {
  /// A fault of the service.
  enum Fault: String, CaseIterable, Sendable {
    case none
    case badTokens, gone, payloads, otherReasons
    case unavailableOnce, bursts, tooManyRequests
    case noAnswerTaken, noAnswerDropped
    case refusesStreams, resetsTaken, resetsDropped
    case goAway, goAwayWithError, drains, cutsTaken, cutsDropped, closes
    case fallingLimit, errorLimit, oneStream, late
    case poison
    case isFarAway, outage, garbage

    func faults(bad: Set<TokenBytes>) -> ServiceFaults {
      var faults = ServiceFaults()
      let listed = Faults.Selection(tokens: bad)
      switch self {
      case .none: break
      case .badTokens: faults.refuse = [ServiceFaults.Refuse(listed, .badDeviceToken)]
      case .gone:
        faults.refuse = [ServiceFaults.Refuse(listed, ServiceRefusal(.unregistered), timestamp: 1_700_000_000_123)]
      case .payloads: faults.refuse = [ServiceFaults.Refuse(listed, .payloadTooLarge)]
      case .otherReasons:
        faults.refuse = [ServiceFaults.Refuse(listed, ServiceRefusal(status: 400, reason: "NobodyKnowsThis"))]
      case .unavailableOnce:
        faults.refuse = [ServiceFaults.Refuse(Faults.Selection(every: 10), .internalServerError, times: 1)]
      case .bursts: faults.bursts = [ServiceFaults.Burst(every: 60, length: 15)]
      case .tooManyRequests: faults.refuse = [ServiceFaults.Refuse(listed, .tooManyRequests, times: 2)]
      case .noAnswerTaken: faults.noAnswer = [ServiceFaults.Silence(listed, isTaken: true)]
      case .noAnswerDropped:
        faults.noAnswer = [ServiceFaults.Silence(Faults.Selection(every: 150, connections: 1), isTaken: false)]
      case .refusesStreams: faults.reset = [ServiceFaults.Reset(Faults.Selection(every: 20))]
      case .resetsTaken: faults.reset = [ServiceFaults.Reset(Faults.Selection(every: 40), code: 2, isTaken: true)]
      case .resetsDropped: faults.reset = [ServiceFaults.Reset(Faults.Selection(every: 40), code: 2, isTaken: false)]
      case .goAway: faults.goAway = ServiceFaults.GoAway(Faults.Breakpoint(after: 40), reason: "Shutdown")
      case .goAwayWithError:
        faults.goAway = ServiceFaults.GoAway(
          Faults.Breakpoint(after: 40, connections: 3), code: 7, reason: "InternalServerError")
      case .drains: faults.drain = ServiceFaults.Drain(Faults.Breakpoint(after: 40, connections: 3), answers: 10)
      case .cutsTaken: faults.cut = [ServiceFaults.Cut(Faults.Breakpoint(after: 40, connections: 3))]
      case .cutsDropped: faults.cut = [ServiceFaults.Cut(Faults.Breakpoint(after: 40, connections: 3), isTaken: false)]
      case .closes: faults.cut = [ServiceFaults.Cut(Faults.Breakpoint(after: 40, connections: 3), isReset: false)]
      case .fallingLimit:
        faults.streamLimit = 100
        faults.limits = [
          ServiceFaults.LimitChange(Faults.Breakpoint(after: 50), limit: 3),
          ServiceFaults.LimitChange(Faults.Breakpoint(after: 150), limit: 50),
        ]
      case .errorLimit:
        faults.refuse = [ServiceFaults.Refuse(listed, .badCollapseIdentifier)]
        faults.errorStreamLimit = 1
      case .oneStream: faults.streamLimit = 1
      case .poison: faults.poison = [ServiceFaults.Poison(listed)]
      case .late: faults.delay = .uniform(.milliseconds(1), .milliseconds(60))
      case .isFarAway: faults.refuse = [ServiceFaults.Refuse(listed, .badDeviceToken)]
      case .outage: faults.outage = ServiceFaults.Outage(length: .milliseconds(500))
      case .garbage: faults.garbage = Faults.Breakpoint(after: 40, connections: 3)
      }
      return faults
    }

    /// How many of 300 notifications a rule selects.
    var badCount: Int {
      switch self {
      case .badTokens, .gone, .payloads, .otherReasons, .tooManyRequests, .errorLimit, .isFarAway: 5
      case .noAnswerTaken, .poison: 2
      default: 0
      }
    }

    /// A resend that may be a duplicate is possible.
    var leavesDoubt: Bool {
      switch self {
      case .noAnswerTaken, .noAnswerDropped, .resetsTaken, .resetsDropped, .cutsTaken, .cutsDropped, .closes, .poison,
        .garbage:
        true
      default: false
      }
    }

    var isRefused: Bool { [.badTokens, .gone, .payloads, .otherReasons, .errorLimit, .isFarAway].contains(self) }
  }

  @Test("over HTTP/2 the account equals the service's truth", arguments: Fault.allCases, [false, true])
  func accountEqualsTruth(fault: Fault, usesKey: Bool) async throws {
    for connections in [1, 4] {
      let index = Fault.allCases.firstIndex(of: fault) ?? 0
      let seed = UInt64(index * 100 + connections)
      var campaign = HTTP2EndToEnd(tokenCount: 300, seed: seed)
      var random = SeededGenerator(seed: seed)
      let bad = Set(campaign.tokens.shuffled(using: &random).prefix(fault.badCount))
      campaign.faults = fault.faults(bad: bad)
      campaign.latency = fault == .isFarAway ? .milliseconds(100) : .zero
      campaign.usesKey = usesKey
      campaign.configuration.connections = connections...connections
      // A missing response is noticed at the end of the timeout. 30 seconds leave a margin for a
      // busy machine.
      campaign.adjust = { settings in
        settings.policy.timeout = fault == .noAnswerTaken || fault == .noAnswerDropped ? .seconds(2) : .seconds(30)
        settings.policy.backoff = .milliseconds(20) ... .seconds(1)
        settings.policy.tokenDelay = .milliseconds(20) ... .seconds(1)
      }
      let result = try await campaign.run()

      var check = AccountCheck(
        tokens: campaign.tokens, account: result.account, outcomes: result.outcomes, arrivals: result.arrivals)
      check.refused = { fault.isRefused && bad.contains($0) }
      check.kills = { fault == .poison && bad.contains($0) }
      let problems = check.problems()
      let title = "\(fault), \(usesKey ? "token" : "certificate"), \(connections) connections, seed \(seed)"
      let found = problems.prefix(5).joined(separator: "; ")
      #expect(problems.isEmpty, "\(title): \(found), \(result.account), \(result.truth), \(result.failure ?? "")")
      #expect(result.failure == nil, "\(title)")
      #expect(result.changedIdentifiers == 0, "\(title)")
      #expect(result.account.rejectedTotal == (fault.isRefused || fault == .poison ? bad.count : 0), "\(title)")
      if !fault.leavesDoubt {
        #expect(result.account.possibleDuplicates == 0, "\(title): \(result.account), \(result.truth)")
        #expect(result.truth.duplicates == 0, "\(title): \(result.account), \(result.truth)")
      }
      // A request that is never answered is sent five times, and is then unknown.
      #expect(result.account.unknown == (fault == .noAnswerTaken ? bad.count : 0), "\(title)")
      if fault == .otherReasons {
        #expect(result.account.rejected.keys.map(\.description) == ["400 NobodyKnowsThis"], "\(title)")
      }
      if usesKey { #expect(result.mintedCount == 1, "\(title)") }
      if fault == .gone {
        #expect(result.goneSince.values.allSatisfy { $0 == 1_700_000_000_123 }, "\(title)")
        #expect(Set(result.goneSince.keys) == bad, "\(title)")
      }
    }
  }
}
