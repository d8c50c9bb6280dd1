internal import Carillon
internal import CarillonTesting
internal import Foundation
internal import Logging
internal import NIOCore
internal import NIOPosix
internal import ServiceLifecycle
internal import Synchronization
internal import Testing

/// What happens around sending: events, credentials, apps that come and go, the end.
@Suite struct DeploymentTests {
  static let topic = SendTests.topic

  @Test("deployments share somebody else's event loops, which go on when one of them has ended")
  func sharedLoops() async throws {
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    try await withSimulator(apps: [Self.topic]) { simulator in
      let configuration = try simulator.configuration(for: Self.topic)
      for number in 1...2 {
        let deployment = try Deployment(apps: [configuration], eventLoopGroup: group)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
          tasks.addTask { try await deployment.run() }
          let outcome = try await deployment.app(Self.topic).send(
            PushNotification(alert: "\(number)"), to: try SendTests.token(number))
          #expect(outcome.isAccepted)
          tasks.cancelAll()
          try await tasks.waitForAll()
        }
      }
    }
    try await group.shutdownGracefully()
  }

  @Test(
    "a credential is replaced: the next notification goes over a new connection",
    arguments: Simulator.Transport.allCases)
  func credentialReplacement(transport: Simulator.Transport) async throws {
    // Two topics, so two certificates; the second app's proves nothing about the first's topic over
    // the binary protocol, where the certificate decides: so its notifications come as the second
    // topic's.
    let other = "com.example.other"
    try await withSimulator(apps: [Self.topic, other], transport: transport) { simulator in
      let app = try simulator.deployment.app(Self.topic)
      let token = try SendTests.token(1)
      #expect(try await app.send(PushNotification(alert: "1"), to: token).isAccepted)
      let credential = try simulator.configuration(for: transport == .binary ? other : Self.topic).credential
      try await app.replaceCredential(credential)
      #expect(try await app.send(PushNotification(alert: "2"), to: token).isAccepted)
      let first = simulator.accepted(Self.topic)
      #expect(first.first?.json == #"{"aps":{"alert":"1"}}"#)
      if transport == .binary {
        #expect(first.count == 1)
        #expect(simulator.accepted(other).map(\.json) == [#"{"aps":{"alert":"2"}}"#])
      } else {
        #expect(first.count == 2)
        #expect(Set(first.map(\.connection)).count == 2)
      }
    }
  }

  @Test("replaced in the middle of a campaign, nothing is lost or sent twice", arguments: Simulator.Transport.allCases)
  func replacementInCampaign(transport: Simulator.Transport) async throws {
    try await withSimulator(apps: [Self.topic], transport: transport) { simulator in
      let app = try simulator.deployment.app(Self.topic)
      let (recipients, continuation) = AsyncStream.makeStream(of: Recipient.self)
      let campaign = try await app.startCampaign(PushNotification(alert: "Hello"), to: recipients)
      for round in 0..<4 {
        for number in 0..<500 { continuation.yield(Recipient(try SendTests.token(round * 500 + number))) }
        try await app.replaceCredential(simulator.configuration(for: Self.topic).credential)
      }
      continuation.finish()
      let account = try await campaign.result()
      #expect(account.accepted == 2_000)
      #expect(account.possibleDuplicates == 0)
      let arrived = simulator.accepted(Self.topic).compactMap(\.token)
      #expect(arrived.count == 2_000)
      #expect(Set(arrived).count == 2_000)
    }
  }

  @Test("a credential that cannot be used changes nothing")
  func uselessCredential() async throws {
    try await withSimulator(apps: [Self.topic]) { simulator in
      let app = try simulator.deployment.app(Self.topic)
      let error = await #expect(throws: CarillonError.self) {
        try await app.replaceCredential(.tokenKey(file: "nowhere.p8", keyID: "ABC123DEFG", teamID: "DEF123GHIJ"))
      }
      #expect(error?.code == .credential)
      #expect(try await app.send(PushNotification(alert: "1"), to: SendTests.token(1)).isAccepted)
    }
  }

  @Test("an app that the service refuses stops, says so, and begins anew", arguments: Simulator.Transport.allCases)
  func stopping(transport: Simulator.Transport) async throws {
    let faults: SimulatedFaults =
      transport == .http2 ? .refuse(every: 1, as: .forbidden) : .refuseCertificate(connections: 1)
    try await withSimulator(apps: [Self.topic], transport: transport, faults: faults) { simulator in
      let app = try simulator.deployment.app(Self.topic)
      let events = simulator.deployment.events
      let ready = Mutex(false)
      async let stopped: String? = {
        var iterator = events.makeAsyncIterator()
        ready.withLock { $0 = true }
        while let event = await iterator.next(isolation: nil) {
          if case .stopped(let reason) = event.kind { return reason }
        }
        return nil
      }()
      // Whoever sends before the loop listens would not be heard.
      while !ready.withLock({ $0 }) { await Task.yield() }
      let outcome = try? await app.send(PushNotification(alert: "1"), to: SendTests.token(1))
      #expect(outcome?.isAccepted != true)
      let reason = try #require(await stopped)
      #expect(app.stopReason == reason)
      let error = await #expect(throws: CarillonError.self) {
        try await app.send(PushNotification(alert: "2"), to: SendTests.token(2))
      }
      #expect(error?.code == .gateway)
      await simulator.setFaults(.none)
      await app.restart()
      #expect(try await app.send(PushNotification(alert: "3"), to: SendTests.token(3)).isAccepted)
    }
  }

  @Test("tokens of a wrong environment trip the breaker, which says so before the app stops")
  func breaker() async throws {
    try await withSimulator(apps: [Self.topic], faults: .refuse(every: 1, as: .badDeviceToken)) { simulator in
      let app = try simulator.deployment.app(Self.topic)
      let events = simulator.deployment.events
      let ready = Mutex(false)
      async let told: [DeploymentEvent.Kind] = {
        var told: [DeploymentEvent.Kind] = []
        var iterator = events.makeAsyncIterator()
        ready.withLock { $0 = true }
        while let event = await iterator.next(isolation: nil) {
          switch event.kind {
          case .breakerTripped: told.append(event.kind)
          case .stopped:
            told.append(event.kind)
            return told
          default: break
          }
        }
        return told
      }()
      while !ready.withLock({ $0 }) { await Task.yield() }
      let tokens = try (0..<20_000).map { try SendTests.token($0) }
      let campaign = try await app.startCampaign(PushNotification(alert: "Hello"), to: tokens)
      let error = await #expect(throws: CarillonError.self) { try await campaign.result() }
      #expect(error?.code == .gateway)
      let reason = try #require(app.stopReason)
      #expect(reason.contains("answers call the device token bad"))
      #expect(await told == [.breakerTripped(reason: reason), .stopped(reason: reason)])
      let account = campaign.accountSoFar
      #expect(account.rejectedByReason == ["400 BadDeviceToken": simulator.refused(Self.topic).count])
      #expect(account.rejected >= 200)
      #expect(account.submitted == account.rejected + account.cancelled)
    }
  }

  @Test("apps are added and removed while the deployment runs")
  func addAndRemove() async throws {
    let other = "com.example.other"
    try await withSimulator(apps: [Self.topic, other]) { simulator in
      let deployment = simulator.deployment
      try await deployment.remove(other)
      #expect(throws: CarillonError.self) { try deployment.app(other) }
      let added = try deployment.add(simulator.configuration(for: other))
      #expect(try await added.send(PushNotification(alert: "1"), to: SendTests.token(1)).isAccepted)
      #expect(throws: CarillonError.self) { try deployment.add(simulator.configuration(for: other)) }
      try await deployment.remove(other)
      let error = await #expect(throws: CarillonError.self) {
        try await added.send(PushNotification(alert: "2"), to: SendTests.token(1))
      }
      #expect(error?.code == .cancelled)
      #expect(
        try await deployment.app(Self.topic).send(PushNotification(alert: "3"), to: SendTests.token(1)).isAccepted)
      #expect(deployment.apps.map(\.id) == [Self.topic])
      #expect(simulator.accepted(other).count == 1)
    }
  }

  @Test("devices that are gone are told, with the time")
  func goneDevices() async throws {
    try await withSimulator(apps: [Self.topic], faults: .refuse(prefix: "dead", as: .unregistered)) { simulator in
      let app = try simulator.deployment.app(Self.topic)
      let gone = app.goneDevices
      let ready = Mutex(false)
      async let devices: Set<DeviceToken> = {
        var devices: Set<DeviceToken> = []
        var iterator = gone.makeAsyncIterator()
        ready.withLock { $0 = true }
        while devices.count < 3, let device = await iterator.next(isolation: nil) {
          #expect(device.since != nil)
          devices.insert(device.token)
        }
        return devices
      }()
      while !ready.withLock({ $0 }) { await Task.yield() }
      let dead = try (0..<3).map { try SendTests.token($0, prefix: "dead") }
      let outcomes = try await app.send(PushNotification(alert: "1"), to: [dead[0], SendTests.token(1), dead[1]])
      #expect(outcomes.map(\.isAccepted) == [false, true, false])
      #expect(outcomes[0].rejection?.goneSince != nil)
      let campaign = try await app.startCampaign(PushNotification(alert: "2"), to: [dead[2]])
      #expect(try await campaign.result().rejectedByReason == ["410 Unregistered": 1])
      #expect(await devices == Set(dead))
    }
  }

  @Test(
    "a service group that shuts down gracefully gives every notification its outcome",
    arguments: Simulator.Transport.allCases)
  func gracefulShutdown(transport: Simulator.Transport) async throws {
    try await withSimulator(apps: [Self.topic], transport: transport, faults: .answerDelay(.milliseconds(50))) {
      simulator in
      let deployment = try Deployment(apps: [simulator.configuration(for: Self.topic)], threads: 1)
      let group = ServiceGroup(
        configuration: .init(services: [.init(service: deployment)], logger: Logger(label: "test")))
      let app = try deployment.app(Self.topic)
      try await withThrowingTaskGroup(of: Void.self) { tasks in
        tasks.addTask { try await group.run() }
        #expect(try await app.send(PushNotification(alert: "0"), to: SendTests.token(0)).isAccepted)
        let (recipients, continuation) = AsyncStream.makeStream(of: Recipient.self)
        let campaign = try await app.startCampaign(PushNotification(alert: "1"), to: recipients)
        for number in 1...200 { continuation.yield(Recipient(try SendTests.token(number))) }
        for await progress in campaign.progress where progress.account.submitted == 200 { break }
        await group.triggerGracefulShutdown()
        let error = await #expect(throws: CarillonError.self) { try await campaign.result() }
        #expect(error?.code == .cancelled)
        let account = campaign.accountSoFar
        #expect(account.inFlight == 0)
        #expect(account.submitted == account.accepted + account.cancelled)
        #expect(simulator.accepted(Self.topic).count == account.accepted + 1)
        try await tasks.waitForAll()
      }
      let error = await #expect(throws: CarillonError.self) {
        try await app.send(PushNotification(alert: "2"), to: SendTests.token(1))
      }
      #expect(error?.code == .cancelled)
    }
  }

  @Test("more than the limit of single sends: callers wait, and a cancelled one gives up its place")
  func backPressure() async throws {
    try await withSimulator(apps: [Self.topic]) { simulator in
      let app = try simulator.deployment.app(Self.topic)
      let count = PushApp.pendingLimit + 500
      let tokens = try (0..<count).map { try SendTests.token($0) }
      let outcomes = try await app.send(PushNotification(alert: "Hello"), to: tokens)
      #expect(outcomes.allSatisfy { $0 == .accepted(.confirmed) })
      #expect(simulator.accepted(Self.topic).count == count)
    }
  }

  @Test("mistakes in settings are found before anything is sent")
  func mistakes() async throws {
    try await withSimulator(apps: [Self.topic]) { simulator in
      let good = try simulator.configuration(for: Self.topic)
      func code(_ change: (inout AppConfiguration) -> Void) -> CarillonError.ErrorCode? {
        var app = good
        change(&app)
        do throws(CarillonError) {
          _ = try Deployment(apps: [app])
          return nil
        } catch {
          return error.code
        }
      }
      #expect(code { $0.id = "a b" } == .configuration)
      #expect(code { $0.rateLimit = 0 } == .configuration)
      for count in [0, 1_001] { #expect(code { $0.attempts = count } == .configuration) }
      for count in [0, 65_536] { #expect(code { $0.http2.concurrentRequests = count } == .configuration) }
      #expect(code { $0.transport = .binary() } == .configuration)
      #expect(code { $0.credential = .certificate(file: "nowhere.pem") } == .credential)
      #expect(throws: CarillonError.self) { try Deployment(apps: [good, good]) }
      let app = try simulator.deployment.app(Self.topic)
      let error = await #expect(throws: CarillonError.self) {
        try await app.send(PushNotification(json: Array("[]".utf8)), to: SendTests.token(1))
      }
      #expect(error?.code == .payload)
      #expect(app.check(PushNotification(alert: "x")).isEmpty)
      let findings = app.check(PushNotification(json: Array(#"{"aps":{"badge":"1"}}"#.utf8)))
      #expect(findings.contains { $0.isError })
    }
  }
}
