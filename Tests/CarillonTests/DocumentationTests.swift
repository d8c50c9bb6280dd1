internal import Carillon
internal import CarillonTesting
internal import Foundation
internal import Logging
internal import ServiceLifecycle
internal import Testing

/// The Swift code of README and of the documentation: each piece stands here as it stands there,
/// and runs. Whoever changes one changes the other.
@Suite struct DocumentationTests {
  static let topic = SendTests.topic

  /// README, "Use it from Swift", and the article of the same name.
  @Test func useFromSwift() async throws {
    try await withSimulator(apps: [Self.topic]) { simulator in
      let news = try simulator.configuration(for: Self.topic)
      let token = try SendTests.token(1)
      let tokens = [token]

      let deployment = try Deployment(apps: [news])

      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await deployment.run() }
        let app = try deployment.app(Self.topic)

        // One notification, one answer.
        let outcome = try await app.send(PushNotification(alert: "Hello", badge: 1), to: token)
        if case .rejected(let rejection) = outcome, rejection.isTokenInvalid { try await forget(token) }

        // A campaign, with its progress and an exact account.
        let campaign = try await app.campaign(PushNotification(alert: "Sale ends today"), to: tokens)
        for await progress in campaign.progress { report(progress.account.accepted) }
        let account = try await campaign.account()
        precondition(account.submitted == account.accepted + account.rejected + account.others)

        group.cancelAll()
      }
      #expect(simulator.accepted(Self.topic).count == 2)
    }
  }

  /// As a service among others, with a journal.
  @Test func asService() async throws {
    let directory = FileManager.default.temporaryDirectory.appendingPathComponent("journal-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: directory) }
    try await withSimulator(apps: [Self.topic]) { simulator in
      let news = try simulator.configuration(for: Self.topic)
      let logger = Logger(label: "example")

      let deployment = try Deployment(
        apps: [news],
        journal: .directory(directory.path, sync: .interval(.milliseconds(10))),
        logger: logger)
      let services = ServiceGroup(
        configuration: .init(services: [.init(service: deployment)], logger: logger))

      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await services.run() }
        for unfinished in deployment.unfinishedCampaigns { try await unfinished.abandon() }
        #expect(
          try await deployment.app(Self.topic).send(PushNotification(alert: "Hello"), to: SendTests.token(1)).isAccepted
        )
        await services.triggerGracefulShutdown()
        try await group.waitForAll()
      }
    }
  }

  /// What a notification can say.
  @Test func payloads() {
    var payload = PushPayload(alert: "Your order has left", badge: 1)
    payload.alert?.titleLocalization = .init(key: "ORDER_TITLE", arguments: ["4711"])
    payload.sound = "chime.caf"
    payload.custom["order"] = ["number": 4711, "items": ["tea", "milk"], "gift": true]

    var notification = PushNotification(payload)
    notification.priority = .considerate
    notification.collapseID = "orders"
    notification.expiration = .after(.seconds(3600))

    #expect(
      String(decoding: notification.json, as: UTF8.self)
        == #"{"aps":{"alert":{"body":"Your order has left","title-loc-key":"ORDER_TITLE","title-loc-args":["4711"]},"#
        + #""badge":1,"sound":"chime.caf"},"order":{"gift":true,"items":["tea","milk"],"number":4711}}"#)
  }

  /// CarillonTesting: a user's own test.
  @Test func badTokensAreForgotten() async throws {
    try await withSimulator(
      apps: ["com.example.news"], faults: .refuse(prefix: "dead", as: .unregistered)
    ) { simulator in
      let service = NewsService(push: simulator.deployment)
      try await service.notifyEveryone()
      #expect(simulator.accepted("com.example.news").count == 9)
    }
  }

  /// Faults, changed while the test runs.
  @Test func changingFaults() async throws {
    try await withSimulator(apps: ["com.example.news"], faults: [.latency(.milliseconds(1))]) { simulator in
      let news = try simulator.deployment.app("com.example.news")
      let token = try SendTests.token(1)
      #expect(try await news.send(PushNotification(alert: "1"), to: token).isAccepted)
      await simulator.setFaults(.refuse(tokens: [token], as: .badDeviceToken))
      #expect(try await news.send(PushNotification(alert: "2"), to: token).rejection?.reason == "400 BadDeviceToken")
    }
  }

  private func forget(_ token: DeviceToken) async throws {}
  private func report(_ count: Int) { #expect(count <= 1) }
}

/// Stands for what a user tests.
private struct NewsService {
  let push: Deployment

  func notifyEveryone() async throws {
    let tokens = try (0..<10).map { try SendTests.token($0, prefix: $0 == 3 ? "dead" : "00") }
    _ = try await push.app("com.example.news").send(PushNotification(alert: "News"), to: tokens)
  }
}
