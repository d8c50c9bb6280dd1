internal import PushEngine
internal import PushWire
internal import Support
internal import Testing

/// Campaigns over real TLS to a gateway that was written in another language from the specification
/// alone. Engine and simulator could share a misunderstanding of the protocol; this gateway cannot.
@Suite(.serialized) struct ForeignGatewayTests {
  /// A behaviour of the gateway. Bad tokens begin with dead.
  struct Case: Sendable, CustomTestStringConvertible {
    var name: String
    var behaviour: String
    var badCount = 2
    /// The outcome of a bad token.
    var reason = Rejection.status(.invalidToken)
    var command = FrameVersion.framed
    var connections = 1
    var testDescription: String { name }
  }

  static let cases: [Case] = [
    Case(name: "no faults", behaviour: "{}", badCount: 0),
    Case(name: "no faults, command 0", behaviour: "{}", badCount: 0, command: .simple),
    Case(name: "a delayed error response", behaviour: #"{"prefix":"dead","delay":0.2}"#),
    Case(
      name: "a delayed error response, command 1, 4 connections", behaviour: #"{"prefix":"dead","delay":0.2}"#,
      command: .enhanced, connections: 4),
    Case(name: "TLS 1.2", behaviour: #"{"prefix":"dead","delay":0.1,"tls":"1.2"}"#),
    Case(name: "six TLS records of one byte", behaviour: #"{"prefix":"dead","split":"records"}"#),
    Case(name: "TCP segments of one byte", behaviour: #"{"prefix":"dead","split":"segments"}"#),
    Case(name: "status 255", behaviour: #"{"prefix":"dead","status":255}"#, reason: .status(.unknown)),
    Case(name: "status 128", behaviour: #"{"prefix":"dead","status":128}"#, reason: .status(.protocolError)),
    Case(
      name: "identifier 0", behaviour: #"{"prefix":"dead","identifier":"zero"}"#, badCount: 1,
      reason: .closedWithoutReason),
    Case(
      name: "an identifier that was never sent", behaviour: #"{"prefix":"dead","identifier":"foreign"}"#, badCount: 1,
      reason: .closedWithoutReason),
    Case(
      name: "an answer that is not an error response", behaviour: #"{"prefix":"dead","reply":"garbage"}"#, badCount: 1,
      reason: .closedWithoutReason),
    Case(
      name: "closed without an error response", behaviour: #"{"prefix":"dead","reply":"close"}"#, badCount: 1,
      reason: .closedWithoutReason),
    Case(
      name: "closed without an error response, command 0", behaviour: #"{"prefix":"dead","reply":"close"}"#,
      badCount: 1,
      reason: .closedWithoutReason, command: .simple),
    Case(
      name: "the end of the stream without close_notify", behaviour: #"{"prefix":"dead","reply":"fin"}"#, badCount: 1,
      reason: .closedWithoutReason),
    Case(
      name: "close_notify without the end of the stream", behaviour: #"{"prefix":"dead","reply":"notify"}"#,
      badCount: 1, reason: .closedWithoutReason),
    Case(name: "reset", behaviour: #"{"prefix":"dead","reply":"reset"}"#, badCount: 1, reason: .closedWithoutReason),
    Case(
      name: "status 10 after 700, 100 late",
      behaviour: #"{"prefix":"dead","shutdown":700,"shutdownLead":100,"delay":0.05}"#),
    Case(name: "closed after 500, twice", behaviour: #"{"closeAfter":500,"closeTimes":2}"#, badCount: 0),
    Case(name: "probes answered with identifier 0", behaviour: #"{"prefix":"dead","probe":"zero"}"#),
    Case(name: "probes without an answer", behaviour: #"{"prefix":"dead","probe":"silent"}"#),
    Case(name: "probes answered with status 10", behaviour: #"{"prefix":"dead","probe":"status10"}"#),
  ]

  @Test("the account equals the foreign gateway's own record", arguments: cases)
  func accountEqualsRecord(_ scenario: Case) async throws {
    let problems = try await problems(scenario)
    #expect(problems.isEmpty, "\(problems.prefix(5).joined(separator: "; "))")
  }

  @Test("a planted mistake in the engine is found")
  func plantedMistake() async throws {
    let scenario = Case(name: "late", behaviour: #"{"prefix":"dead","delay":0.2}"#)
    #expect(try await !problems(scenario, mistake: .followersAreForgotten).isEmpty)
  }

  /// The problems of a campaign, in sentences.
  private func problems(_ scenario: Case, mistake: LanePolicy.PlantedMistake? = nil) async throws -> [String] {
    let seed: UInt64 = 11
    var campaign = EndToEnd(tokenCount: 2000, seed: seed)
    var random = SeededGenerator(seed: seed)
    let places = Set(Array(campaign.tokens.indices).shuffled(using: &random).prefix(scenario.badCount))
    campaign.tokens = campaign.tokens.enumerated().compactMap { index, token in
      let bytes = unsafe token.withUnsafeBytes { unsafe Array($0) }
      return TokenBytes(bytes: (places.contains(index) ? [0xDE, 0xAD] : [0, 0]) + bytes.dropLast(2))
    }
    let bad = Set(places.map { campaign.tokens[$0] })
    campaign.configuration = AppRules(id: "foreign")
    campaign.configuration.command = scenario.command
    campaign.configuration.connections = scenario.connections...scenario.connections
    campaign.configuration.policy.hasIdentifiers = scenario.command != .simple
    // Error responses are delayed by 200 ms; the rest is a margin for a busy machine.
    campaign.configuration.policy.quiet = .seconds(1)
    // A gateway that only closes is tried about thirty times before the bad notification is
    // isolated.
    campaign.configuration.policy.backoffBase = .milliseconds(10)
    campaign.configuration.policy.backoffLimit = .milliseconds(100)
    campaign.configuration.policy.plantedMistake = mistake

    let gateway = try await ForeignGateway(scenario.behaviour)
    let sent: EndToEnd.Sent
    do { sent = try await campaign.send(through: gateway.dialer()) } catch {
      _ = try await gateway.stop()
      throw error
    }
    let record = try await gateway.stop()

    var check = AccountCheck(
      tokens: campaign.tokens, account: sent.account, outcomes: sent.outcomes, arrivals: record.accepted)
    check.refused = { bad.contains($0) && scenario.reason != .closedWithoutReason }
    check.kills = { bad.contains($0) && scenario.reason == .closedWithoutReason }
    var problems = check.problems()
    if let failure = sent.failure { problems.append("the app failed: \(failure)") }
    let violations = record.sums["violations", default: 0]
    if violations > 0 { problems.append("the gateway could not decode \(violations) frames") }
    let distinct = record.accepted.count { $0.value > 0 }
    if sent.account.accepted != distinct {
      problems.append("\(sent.account.accepted) counted as accepted, the gateway accepted \(distinct)")
    }
    let expected = bad.isEmpty ? [:] : [scenario.reason: bad.count]
    if sent.account.rejected != expected { problems.append("rejected: \(sent.account.rejected), not \(expected)") }
    return problems.isEmpty ? [] : ["seed \(seed)"] + problems
  }
}
