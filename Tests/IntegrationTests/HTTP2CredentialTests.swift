internal import PushEngine
internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// The service's responses about the credential, and the app's reactions.
@Suite struct HTTP2CredentialTests {
  @Test("a clock that is 90 minutes wrong is noticed and costs one more provider token", arguments: [-90, 90])
  func wrongClock(minutes: Int) async throws {
    var campaign = HTTP2EndToEnd(tokenCount: 500, seed: 1)
    campaign.usesKey = true
    campaign.settings.clockOffset = .seconds(60 * minutes)
    campaign.configuration.connections = 2...2
    let result = try await campaign.run()
    #expect(result.account.accepted == 500, "\(result.account), \(result.failure ?? "")")
    #expect(result.failure == nil, "\(result.account), \(result.failure ?? "")")
    #expect(result.account.possibleDuplicates == 0)
    #expect(result.truth.duplicates == 0)
    #expect(result.mintedCount == 2)
  }

  @Test(
    "a service that refuses the topic stops the app: everything is cancelled, nothing rejected or unknown",
    arguments: [ProviderReason.topicDisallowed, .forbidden])
  func pauses(reason: ProviderReason) async throws {
    var campaign = HTTP2EndToEnd(tokenCount: 3_000, seed: 2)
    campaign.usesKey = true
    campaign.configuration.connections = 1...1
    campaign.faults.refuse = [ServiceFaults.Refuse(Faults.Selection(every: 1), reason)]
    let result = try await campaign.run()
    #expect(result.failure?.contains(reason.rawValue) == true, "\(result.failure ?? "no failure")")
    #expect(result.account.submitted >= 1, "\(result.account)")
    #expect(result.account.cancelled == result.account.submitted, "\(result.account)")
    #expect(result.account.possibleDuplicates == 0)
  }

  @Test(
    "bad tokens of the other environment stop the app early; a usual share of bad tokens does not", arguments: [1, 20])
  func breaker(every: Int) async throws {
    var campaign = HTTP2EndToEnd(tokenCount: 20_000, seed: 3)
    campaign.configuration.connections = 2...2
    campaign.faults.refuse = [ServiceFaults.Refuse(Faults.Selection(every: every), .badDeviceToken)]
    let result = try await campaign.run()
    guard every == 1 else {
      #expect(result.failure == nil, "\(result.account)")
      #expect(result.account.rejectedTotal > 900, "\(result.account)")
      #expect(result.account.cancelled == 0, "\(result.account)")
      return
    }
    #expect(result.failure?.contains("device token bad") == true, "\(result.failure ?? "no failure")")
    #expect((200..<5_000).contains(result.account.rejectedTotal), "\(result.account)")
    #expect(result.account.rejectedTotal + result.account.cancelled == result.account.submitted)
  }
}
