internal import Carillon
internal import CarillonTesting
internal import Foundation
internal import Logging
internal import Synchronization
internal import Testing

/// The Swift code of README and of the guides. `DocumentTests` checks that every line of it stands
/// here, in the same order.
@Suite struct DocumentedCodeTests {
  private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
  private let forgotten = ForgottenTokens()

  private func forget(_ token: DeviceToken) async throws { forgotten.add(token) }

  private static func token(_ digits: String) throws -> DeviceToken {
    try DeviceToken(hex: digits + String(repeating: "0", count: 64 - digits.count))
  }

  /// Nine of them, with the name of each.
  private static func recipients() throws -> AsyncStream<Recipient> {
    let (recipients, continuation) = AsyncStream.makeStream(of: Recipient.self)
    for number in 0..<9 { continuation.yield(Recipient(try token("1\(number)"), values: ["name": "Ada"])) }
    continuation.finish()
    return recipients
  }

  /// Needs a key from a developer account.
  private func configured() throws -> Deployment {
    let news = AppConfiguration(
      id: "news", topic: "com.example.news", transport: .http2(),
      credential: .tokenKey(file: "AuthKey_ABC123DEFG.p8", teamID: "DEF123GHIJ"))
    let deployment = try Deployment(apps: [news], journal: .directory("journal"))
    return deployment
  }

  @Test("a deployment whose key file is missing says so")
  func configuration() throws {
    let error = #expect(throws: CarillonError.self) { try configured() }
    #expect(error?.code == .credential)
    #expect(error?.message.contains("AuthKey_ABC123DEFG.p8") == true)
  }

  @Test("a deployment runs in a task group, sends one notification and a campaign")
  func taskGroup() async throws {
    try await withSimulator(apps: ["news"]) { simulator in
      let deployment = try Deployment(apps: [simulator.configuration(for: "news")])
      let token = try Self.token("0a")
      let recipients = try Self.recipients()
      let print: @Sendable (PushOutcome, CampaignAccount) -> Void = { outcome, account in
        #expect(outcome.isAccepted)
        #expect(account.accepted == 9)
      }
      try await withThrowingTaskGroup { group in
        group.addTask { try await deployment.run() }
        let app = try deployment.app("news")
        let outcome = try await app.send(PushNotification(alert: "Hello"), to: token)
        let campaign = try await app.startCampaign(PushNotification(alert: "Hi {{name}}"), to: recipients)
        print(outcome, try await campaign.result())
        group.cancelAll()
      }
      #expect(simulator.accepted("news").count { $0.json == #"{"aps":{"alert":"Hi Ada"}}"# } == 9)
    }
  }

  @Test("a deployment that ends with its scope")
  func scope() async throws {
    try await withSimulator(apps: ["news"]) { simulator in
      let deployment = try Deployment(apps: [simulator.configuration(for: "news")])
      let token = try Self.token("0a")
      let recipients = try Self.recipients()
      func print(_ outcome: PushOutcome) { #expect(outcome.isAccepted) }
      func print(_ account: CampaignAccount) { #expect(account.accepted == 9) }

      async let _ = deployment.run()
      let app = try deployment.app("news")
      print(try await app.send(PushNotification(alert: "Hello"), to: token))
      let campaign = try await app.startCampaign(PushNotification(alert: "Hi {{name}}"), to: recipients)
      print(try await campaign.result())
    }
  }

  @Test("single notifications: each outcome has its case, and a payload its parts")
  func single() async throws {
    let faults = SimulatedFaults.refuse(prefix: "dead", as: .unregistered)
    try await withSimulator(apps: ["news"], faults: faults) { simulator in
      let app = try simulator.deployment.app("news")
      var payload = PushPayload(alert: "Your order has left", badge: 1)
      payload.sound = "chime.caf"
      payload.custom["order"] = ["number": 4711, "gift": true]
      var notification = PushNotification(payload)
      notification.priority = .consideringDevicePower
      notification.expiration = .after(.seconds(3600))
      for token in [try Self.token("00"), try Self.token("dead")] {
        switch try await app.send(notification, to: token) {
        case .accepted: break
        case .rejected(let rejection) where rejection.isTokenInvalid: try await forget(token)
        case .rejected(let rejection): logger.warning("rejected: \(rejection)")
        default: break
        }
      }
      #expect(forgotten.tokens == [try Self.token("dead")])
      let accepted = try #require(simulator.accepted("news").first)
      #expect(accepted.priority == 5)
      #expect(accepted.json.contains(#""order":{"gift":true,"number":4711}"#))
    }
  }

  @Test("a notification is checked, and a Live Activity is changed")
  func checkAndLiveActivity() async throws {
    try await withSimulator(apps: ["news"]) { simulator in
      let app = try simulator.deployment.app("news")
      let token = try Self.token("0a")
      let notification = PushNotification(json: Array(#"{"aps":{"alert":"Hello","badge":"1"}}"#.utf8))
      let logger = CountingLogger()
      for finding in app.check(notification) { logger.warning("\(finding)") }
      #expect(logger.count == 1)

      let state: PushPayload.Value = ["home": 2, "away": 1]
      var payload = PushPayload(alert: "Goal!")
      payload.liveActivity = .init(.update, contentState: state)
      var goal = PushNotification(payload)
      goal.pushType = .liveActivity
      let outcome = try await app.send(goal, to: token)
      #expect(outcome.isAccepted)
      #expect(app.check(goal).isEmpty)
      #expect(simulator.accepted("news").first?.json.contains(#""content-state":{"away":1,"home":2}"#) == true)
    }
  }

  @Test("apps are added and removed while others send, and one is paused")
  func appsChange() async throws {
    try await withSimulator(apps: ["news", "chat"]) { simulator in
      let configuration = try simulator.configuration(for: "chat")
      let deployment = simulator.deployment
      try await deployment.remove("chat")
      let token = try Self.token("0a")
      let chat = try deployment.add(configuration)
      let outcome = try await chat.send(PushNotification(alert: "Hello"), to: token)
      #expect(outcome.isAccepted)
      try await deployment.remove("chat")
      #expect(deployment.apps.map(\.id) == ["news"])

      let app = try deployment.app("news")
      app.pause()
      #expect(app.isPaused)
      async let later = app.send(PushNotification(alert: "Hello"), to: token)
      app.resume()
      #expect(try await later.isAccepted)
    }
  }

  @Test("a campaign from a file: progress, what was not accepted, and the account")
  func campaign() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(at: folder) }
    let file = folder.appending(path: "people.csv").path
    try Data("token,name\n\(Self.token("0b").hex),Ada\nnone,Eve\n".utf8).write(to: URL(filePath: file))
    try await withSimulator(apps: ["news"]) { simulator in
      let app = PathApp(app: try simulator.deployment.app("news"), folder: folder)
      let token = try Self.token("0b")
      let recipient = Recipient(token, values: ["name": "Ada"])
      #expect(recipient.values == ["name": "Ada"])
      let hello = PushNotification(alert: "Hi {{name}}")
      let logger = CountingLogger()
      let campaign = try await app.startCampaign(hello, toTokensIn: "people.csv") { unaccepted in
        logger.info("position \(unaccepted.position): \(unaccepted.outcome)")
      }
      var last = 0
      func print(_ settled: Int) { last = settled }
      for await progress in campaign.progress { print(progress.account.settled) }
      let account = try await campaign.result()
      #expect(last == 2)
      #expect(account.accepted == 1)
      #expect(logger.count == 1)
    }
  }

  @Test("nothing is unfinished after an orderly end, and gone devices are told")
  func unfinishedAndGone() async throws {
    let faults = SimulatedFaults.refuse(prefix: "dead", as: .unregistered)
    let token = try Self.token("dead")
    try await withSimulator(apps: ["news"], faults: faults) { simulator in
      let deployment = simulator.deployment
      for unfinished in deployment.unfinishedCampaigns {
        let campaign = try await unfinished.resume(toTokensIn: "people.csv")
        print(try await campaign.result())
      }
      let app = try deployment.app("news")
      try await withThrowingTaskGroup { group in
        group.addTask {
          for await device in app.goneDevices { try await forget(device.token) }
        }
        group.addTask {
          // Who listens later hears only of what is found later.
          while forgotten.tokens.isEmpty {
            _ = try await app.send(PushNotification(alert: "Hello"), to: token)
          }
        }
        try await group.next()
        group.cancelAll()
      }
      #expect(forgotten.tokens.first == token)
    }
  }

  @Test("gone devices of the binary protocol come from the feedback service")
  func feedback() async throws {
    let token = try Self.token("dead")
    try await withSimulator(apps: ["news"], transport: .binary) { simulator in
      simulator.addFeedback([PushApp.GoneDevice(token: token)], for: "news")
      let app = try simulator.deployment.app("news")
      let service = simulator.feedbackService
      for try await device in app.feedback(from: service) { try await forget(device.token) }
      #expect(forgotten.tokens == [token])
    }
  }

  @Test("events say why an app waits or has stopped")
  func events() async throws {
    try await withSimulator(apps: ["news"], faults: .refuse(every: 1, as: .badDeviceToken)) { simulator in
      let deployment = simulator.deployment
      let app = try deployment.app("news")
      let tokens = try (0..<500).map { try Self.token("a\($0 + 1000)") }
      let logger = CountingLogger()
      await withTaskGroup { group in
        group.addTask {
          for await event in deployment.events {
            switch event.kind {
            case .waiting(let waiting): logger.warning("\(event.app) waits: \(waiting.cause)")
            case .breakerTripped(let reason): logger.error("\(event.app): \(reason)")
            case .stopped(let reason): logger.error("\(event.app) has stopped: \(reason)")
            default: break
            }
          }
        }
        // Who listens later hears only of what happens later.
        while logger.count < 2 {
          await app.restart()
          _ = try? await app.send(PushNotification(alert: "Hello"), to: tokens)
        }
        group.cancelAll()
      }
      #expect(logger.count >= 2)
    }
  }

  @Test("a credential is replaced by files or from memory")
  func replacement() async throws {
    try await withSimulator(apps: ["news"]) { simulator in
      let app = try simulator.deployment.app("news")
      let error = await #expect(throws: CarillonError.self) {
        let renewed = AppConfiguration.Credential.certificate(file: "news-2027.pem", key: "news-2027.key")
        try await app.replaceCredential(renewed)
      }
      #expect(error?.message.contains("news-2027.pem") == true)
      let material = try CredentialMaterial(simulator, topic: "news")
      let (secret, keyID, teamID) = (material.tokenKey, material.keyID, material.teamID)
      try await app.replaceCredential(.tokenKey(pem: secret, keyID: keyID, teamID: teamID))
      #expect(try await app.send(PushNotification(alert: "Hello"), to: Self.token("0a")).isAccepted)
    }
  }

  /// What the guide's test is about.
  struct MyService {
    let push: Deployment

    func notifyEveryone() async throws {
      let tokens = try (0..<9).map { try DocumentedCodeTests.token("a\($0)") } + [DocumentedCodeTests.token("dead")]
      _ = try await push.app("com.example.news").send(PushNotification(alert: "Hello"), to: tokens)
    }
  }

  @Test func badTokensAreForgotten() async throws {
    let faults = SimulatedFaults.refuse(prefix: "dead", as: .unregistered)
    try await withSimulator(apps: ["com.example.news"], faults: faults) { simulator in
      let service = MyService(push: simulator.deployment)
      try await service.notifyEveryone()
      #expect(simulator.accepted("com.example.news").count == 9)
    }
  }
}

/// Finds the guide's files in a folder of the test.
private struct PathApp {
  let app: PushApp
  let folder: URL

  func startCampaign(
    _ notification: PushNotification, toTokensIn name: String,
    notAccepted: @escaping @Sendable (UnacceptedNotification) -> Void
  ) async throws -> PushCampaign {
    try await app.startCampaign(
      notification, toTokensIn: folder.appending(path: name).path, notAccepted: notAccepted)
  }
}

/// Counts what the guide logs.
private final class CountingLogger: Sendable {
  private let messages = Mutex<[String]>([])

  var count: Int { messages.withLock { $0.count } }

  func warning(_ message: String) { info(message) }
  func error(_ message: String) { info(message) }
  func info(_ message: String) { messages.withLock { $0.append(message) } }
}

/// What the guide's `forget` was called with.
private final class ForgottenTokens: Sendable {
  private let list = Mutex<[DeviceToken]>([])

  var tokens: [DeviceToken] { list.withLock { $0 } }

  func add(_ token: DeviceToken) { list.withLock { $0.append(token) } }
}
