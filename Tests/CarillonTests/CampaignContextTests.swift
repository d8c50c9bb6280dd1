internal import Foundation
internal import PushEngine
internal import Testing

@testable internal import Carillon

@Suite("What the journal keeps of an app for `send --resume`")
struct CampaignContextTests {
  private static var app: AppConfiguration {
    var app = AppConfiguration(
      id: "news", topic: "com.example.news", transport: .binary(.sandbox, frames: .one),
      credential: .certificate(file: "/news.pem", key: "/news.key"))
    app.gateway = AppConfiguration.Gateway(host: "localhost", port: 1)
    app.feedbackService = AppConfiguration.Gateway(host: "localhost", port: 2)
    app.channelService = AppConfiguration.Gateway(host: "localhost", port: 3)
    app.trustedAuthorities = "/ca.pem"
    app.proxy = AppConfiguration.Proxy(.https, host: "proxy", port: 17)
    app.proxy?.login = .username("carillon", passwordFile: "/proxy.pass")
    app.proxy?.trustedAuthorities = "/proxy.pem"
    app.pushType = .voip
    app.connections = 2...3
    app.connectionsPerMinute = 4
    app.rateLimit = 5
    (app.weight, app.patience, app.attempts, app.onUnknown) = (6, .seconds(7), 8, .drop)
    app.maxAge = .seconds(18)
    (app.batching.byteCount, app.batching.delay) = (9_000, .milliseconds(10))
    (app.window.notifications, app.window.bytes) = (110, 120_000)
    (app.settling.quiet, app.settling.usesProbes) = (.seconds(13), false)
    app.http2.requestTimeout = .seconds(14)
    app.http2.concurrentRequests = 15
    app.http2.pingInterval = .seconds(16)
    return app
  }

  @Test("every setting is read back")
  func roundTrip() throws {
    let bytes = try JSONEncoder().encode(StoredApp(Self.app))
    #expect(try JSONDecoder().decode(StoredApp.self, from: bytes).app == Self.app)
    // One that the list of settings has and this one has not would be equal to its default.
    for setting in AppSetting.all where setting.key != "transport" {
      let plain = AppConfiguration(id: "news", topic: nil, transport: .binary(), credential: Self.app.credential)
      #expect(!setting.isEqual(Self.app, plain), "\(setting.key) is not in this test")
    }
  }

  @Test("a send is read back as what it is, and so are other campaigns")
  func kinds() throws {
    let fingerprint = FileFingerprint(byteCount: 1, sha256: "00")
    var sent = CampaignContext()
    sent.tokens = fingerprint
    sent.send = CampaignContext.Send(
      Self.app, isNamedByTopic: true, payloadFile: "/hello.json", payload: fingerprint, tokensFile: "/tokens",
      outcomes: nil, gone: "/gone", begunAt: 17)
    // The shape that earlier versions wrote and read.
    let fields = try #require(try JSONSerialization.jsonObject(with: Data(sent.bytes)) as? [String: Any])
    #expect(fields["version"] as? Int == 2)
    #expect(fields["isSingleSends"] == nil)
    let read = CampaignContext(reading: sent.bytes)
    #expect(read.tokens == fingerprint)
    #expect(read.send?.app == Self.app)
    #expect(read.send?.begunAt == 17)
    var plain = CampaignContext()
    (plain.name, plain.served, plain.tokens) = ("sale", "a/0", fingerprint)
    let other = CampaignContext(reading: plain.bytes)
    #expect(other.send == nil)
    #expect((other.name, other.served) == ("sale", "a/0"))
    #expect(CampaignContext(reading: Array("other".utf8)).send == nil)
  }

  @Test("an app that an earlier version has written is read, and what it has for a service is passed over")
  func earlier() throws {
    let bytes = try JSONEncoder().encode(StoredApp(Self.app))
    var fields = try #require(try JSONSerialization.jsonObject(with: bytes) as? [String: Any])
    let later = ["openCampaignCount", "bridgeClients", "feedbackService", "channelService", "proxy"]
    for key in later { fields[key] = nil }
    fields["queueByteCount"] = 1_000_000
    fields["timeZone"] = "Europe/Berlin"
    let older = try JSONSerialization.data(withJSONObject: fields)
    var expected = Self.app
    expected.feedbackService = nil
    expected.channelService = nil
    expected.proxy = nil
    #expect(try JSONDecoder().decode(StoredApp.self, from: older).app == expected)
  }
}
