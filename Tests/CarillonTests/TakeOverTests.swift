internal import CarillonTesting
internal import Foundation
internal import PushTransport
internal import Testing

@testable internal import Carillon

/// What a service does with its apps when it reads its configuration again.
@Suite struct TakeOverTests {
  private static let topic = SendTests.topic

  @Test("connections stay until the content of the credential changes", arguments: Simulator.Transport.allCases)
  func connections(transport: Simulator.Transport) async throws {
    try await withSimulator(apps: [Self.topic], transport: transport) { simulator in
      let folder = URL.temporaryDirectory.appending(path: "carillon-\(UUID().uuidString)")
      try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
      defer { try? FileManager.default.removeItem(at: folder) }
      func copy(_ path: String) throws -> String {
        let copy = folder.appending(path: URL(filePath: path).lastPathComponent)
        try FileManager.default.copyItem(at: URL(filePath: path), to: copy)
        return copy.path(percentEncoded: false)
      }
      var configuration = try simulator.configuration(for: Self.topic)
      configuration.connections = 1...1
      let file: String
      switch configuration.credential.settings {
      case .tokenKey(let key):
        file = try copy(key.file)
        configuration.credential = .tokenKey(file: file, keyID: key.keyIdentifier, teamID: key.teamIdentifier)
      case .certificate(let files):
        file = try copy(files.certificate)
        configuration.credential = .certificate(file: file, key: files.key)
      case .certificateInMemory, .tokenKeyInMemory: return
      }
      let deployment = try Deployment(apps: [configuration], threads: 1)
      try await withThrowingTaskGroup(of: Void.self) { tasks in
        tasks.addTask { try await deployment.run() }
        let app = try deployment.app(Self.topic)
        func send(_ number: Int) async throws {
          #expect(try await app.send(PushNotification(alert: "\(number)"), to: SendTests.token(number)).isAccepted)
        }
        try await send(1)
        for limit in [nil, 1_000.0] {
          configuration.rateLimit = limit
          #expect(try await !app.takeOver(configuration))
          try await send(2)
        }
        #expect(app.status.rateLimit == 1_000)
        // Over the binary protocol, each probe ends a connection.
        func connectionCount() -> Int { Set(simulator.accepted(Self.topic).map(\.connection)).count }
        if transport == .http2 { #expect(connectionCount() == 1) }
        let content = try Data(contentsOf: URL(filePath: file))
        try (content + Data("\n".utf8)).write(to: URL(filePath: file))
        #expect(try await app.takeOver(configuration))
        try await send(3)
        if transport == .http2 { #expect(connectionCount() == 2) }
        tasks.cancelAll()
        try await tasks.waitForAll()
      }
    }
  }
}
