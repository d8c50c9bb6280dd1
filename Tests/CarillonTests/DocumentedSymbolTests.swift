internal import Carillon
internal import CarillonTesting
internal import Foundation
internal import Logging
internal import ServiceLifecycle
internal import Testing

/// The Swift code in the documentation of symbols, as ``DocumentedCodeTests`` has the guides'.
@Suite struct DocumentedSymbolTests {
  private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

  @Test("AppConfiguration: an app is made of four arguments, and settings of its own")
  func configuration() {
    var news = AppConfiguration(
      id: "news", topic: "com.example.news", transport: .http2(.production),
      credential: .tokenKey(file: "AuthKey_ABC123DEFG.p8", teamID: "DEF123GHIJ"))
    news.rateLimit = 5_000
    news.proxy = AppConfiguration.Proxy(.http, host: "proxy.example.com", port: 3128)
    news.proxy?.login = .username("carillon", passwordFile: "proxy.pass")
    #expect(news.rateLimit == 5_000)
  }

  @Test("PushNotification: what it says, and how it is delivered")
  func notifications() {
    let hello = PushNotification(alert: "Hello", badge: 1)
    var quiet = PushNotification(PushPayload(alert: "3 new messages"))
    quiet.priority = .consideringDevicePower
    quiet.collapseID = "inbox"
    quiet.expiration = .after(.seconds(3600))
    #expect(String(decoding: hello.json, as: UTF8.self) == #"{"aps":{"alert":"Hello","badge":1}}"#)
    #expect(String(decoding: quiet.json, as: UTF8.self) == #"{"aps":{"alert":"3 new messages"}}"#)
  }

  @Test("PushPayload: its parts become JSON, with the keys of an object in alphabetical order")
  func payloads() {
    var payload = PushPayload(alert: "Your order has left", badge: 1)
    payload.alert?.titleLocalization = .init(key: "ORDER_TITLE", arguments: ["4711"])
    payload.sound = "chime.caf"
    payload.custom["order"] = 4711
    #expect(String(decoding: payload.json, as: UTF8.self).hasSuffix(#","order":4711}"#))

    payload.custom["order"] = ["number": 4711, "items": ["tea", "milk"], "gift": true]
    #expect(
      String(decoding: payload.json, as: UTF8.self)
        == #"{"aps":{"alert":{"body":"Your order has left","title-loc-key":"ORDER_TITLE","title-loc-args":["4711"]},"#
        + #""badge":1,"sound":"chime.caf"},"order":{"gift":true,"items":["tea","milk"],"number":4711}}"#)
  }

  @Test("PushCampaign: its progress, and its account at the end")
  func campaign() async throws {
    try await withSimulator(apps: ["news"]) { simulator in
      let news = try simulator.deployment.app("news")
      let (recipients, continuation) = AsyncStream.makeStream(of: Recipient.self)
      for number in 0..<3 { continuation.yield(Recipient(try SendTests.token(number), values: ["day": "today"])) }
      continuation.finish()
      var last = 0
      func print(_ accepted: Int) { last = accepted }

      let sale = PushNotification(alert: "Sale ends {{day}}")
      let campaign = try await news.startCampaign(sale, to: recipients)
      for await progress in campaign.progress { print(progress.account.accepted) }
      let account = try await campaign.result()
      #expect(account.accepted == 3)
      #expect(last == 3)
    }
  }

  @Test("SimulatedFaults: several are joined, and can be changed while the test runs")
  func faults() async throws {
    let token = try SendTests.token(1)
    let faults: SimulatedFaults = [
      .refuse(prefix: "dead", as: .unregistered), .latency(.milliseconds(50)),
    ]
    try await withSimulator(apps: ["com.example.news"], faults: faults) { simulator in
      let app = try simulator.deployment.app("com.example.news")
      _ = try await app.send(PushNotification(alert: "Hello"), to: token)
      #expect(simulator.accepted("com.example.news").count == 1)
      await simulator.setFaults(.refuse(tokens: [token], as: .badDeviceToken))
      #expect(try await app.send(PushNotification(alert: "2"), to: token).rejection?.reason == "400 BadDeviceToken")
    }
  }

  @Test("CarillonError: a send to an app that has stopped says why")
  func errors() async throws {
    let (hello, token) = (PushNotification(alert: "Hello"), try SendTests.token(1))
    try await withSimulator(apps: ["news"], faults: .refuse(every: 1, as: .badDeviceToken)) { simulator in
      let app = try simulator.deployment.app("news")
      // The breaker trips.
      while app.stopReason == nil { _ = try? await app.send(hello, to: (1...500).map { try SendTests.token($0) }) }
      do throws(CarillonError) {
        _ = try await app.send(hello, to: token)
      } catch {
        if error.code == .gateway { logger.warning("the app has stopped: \(error)") }
        #expect(error.code == .gateway)
      }
    }
  }

  @Test("Deployment: a service among others, with a journal, whose unfinished campaigns are resumed")
  func service() async throws {
    let directory = FileManager.default.temporaryDirectory.appendingPathComponent("journal-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: directory) }
    try await withSimulator(apps: ["news"]) { simulator in
      let deployment = try Deployment(
        apps: [simulator.configuration(for: "news")],
        journal: .directory(directory.path, sync: .interval(.milliseconds(10))), logger: logger)
      let services = ServiceGroup(
        configuration: .init(services: [.init(service: deployment)], logger: logger))
      let tokens = [try SendTests.token(1)]
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await services.run() }
        for unfinished in deployment.unfinishedCampaigns {
          let campaign = try await unfinished.resume(to: tokens)
          print(try await campaign.result())
        }
        let outcomes = try await deployment.app("news").send(PushNotification(alert: "Hello"), to: tokens)
        #expect(outcomes == [.accepted(.confirmed)])
        await services.triggerGracefulShutdown()
        try await group.waitForAll()
      }
    }
  }
}
