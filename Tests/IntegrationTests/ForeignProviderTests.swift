internal import PushEngine
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// Campaigns over real TLS to services for the HTTP/2 provider API that were made with the HTTP/2
/// of others: python3-h2 and Go.
@Suite(.serialized) struct ForeignProviderTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var name: String
    var program: ForeignGateway.Program
    var behaviour: String
    var connections = 1
    var payloadByteCount = 100
    var testDescription: String { name }
  }

  static let cases: [Case] = [
    Case(name: "python3-h2", program: .pythonProvider, behaviour: "{}", connections: 3),
    Case(
      name: "python3-h2, a table of 0 bytes and later of 1,000, 7 streams and later 50", program: .pythonProvider,
      behaviour: #"{"settings":{"table":0,"streams":7},"later":{"table":1000,"streams":50}}"#),
    Case(
      name: "python3-h2, windows smaller than a payload", program: .pythonProvider,
      behaviour: #"{"settings":{"window":64},"later":{"window":900}}"#, payloadByteCount: 700),
    Case(
      name: "python3-h2, 103, trailers, padding and PING", program: .pythonProvider,
      behaviour: #"{"informational":3,"trailers":2,"padding":17,"ping":100}"#),
    Case(
      name: "python3-h2, GOAWAY after 400 requests", program: .pythonProvider, behaviour: #"{"goaway":400}"#,
      connections: 2),
    Case(name: "Go", program: .goProvider, behaviour: "{}", connections: 3),
    Case(
      name: "Go, 103, trailers and GOAWAY", program: .goProvider,
      behaviour: #"{"informational":3,"trailers":2,"goaway":500}"#, connections: 2, payloadByteCount: 3_000),
  ]

  @Test("the account equals the record of a service that shares no code with ours", arguments: cases)
  func accountEqualsRecord(_ scenario: Case) async throws {
    var campaign = HTTP2EndToEnd(tokenCount: 2_000, seed: 5)
    campaign.configuration.connections = scenario.connections...scenario.connections
    let filler = String(repeating: "x", count: scenario.payloadByteCount - 20)
    campaign.payload = #"{"aps":{"alert":"\#(filler)"}}"#
    let listener = GoneBook()
    let service = try await ForeignGateway(scenario.behaviour, scenario.program, topic: HTTP2EndToEnd.topic)
    let sent: (account: Account, failure: String?)
    do {
      let dialer = try service.dialer(protocols: [ApplicationProtocol.http2])
      sent = try await campaign.send(through: dialer, source: nil, listener: listener)
    } catch {
      _ = try await service.stop()
      throw error
    }
    let record = try await service.stop()
    #expect(sent.failure == nil)
    #expect(record.sums["violations"] == 0)
    let gone = campaign.tokens.filter { $0.description.hasSuffix("0") }
    let bad = campaign.tokens.filter { $0.description.hasSuffix("1") }
    let good = Set(campaign.tokens).subtracting(gone + bad)
    #expect(gone.count > 50)
    #expect(good.allSatisfy { record.accepted[$0, default: 0] > 0 })
    #expect((gone + bad).allSatisfy { record.accepted[$0] == 0 })
    #expect(sent.account.confirmed == good.count, "\(sent.account)")
    #expect(
      sent.account.rejected[.provider(ProviderRefusal(status: 410, reason: .unregistered))] == gone.count,
      "\(sent.account)")
    #expect(
      sent.account.rejected[.provider(ProviderRefusal(status: 400, reason: .badDeviceToken))] == bad.count,
      "\(sent.account)")
    #expect(listener.since == Dictionary(gone.map { ($0, 1_700_000_000_000) }, uniquingKeysWith: { first, _ in first }))
    let copies = record.accepted.values.reduce(0) { $0 + max(0, $1 - 1) }
    #expect(copies <= sent.account.possibleDuplicates, "\(sent.account)")
    if !scenario.behaviour.contains("goaway") { #expect(sent.account.possibleDuplicates == 0, "\(sent.account)") }
  }
}
