internal import CarillonTesting
internal import Foundation
internal import PushTransport
internal import Testing

@testable internal import Carillon

/// A simulator's credentials as bytes, as a program has them that keeps secrets elsewhere than in
/// files.
struct CredentialMaterial {
  var certificate: [UInt8] = []
  var key: [UInt8] = []
  var container: [UInt8] = []
  var passphrase = ""
  var tokenKey = ""
  var keyID = ""
  var teamID = ""

  init(_ simulator: Simulator, topic: String) throws {
    func read(_ path: String) throws -> [UInt8] { try Array(Data(contentsOf: URL(filePath: path))) }
    let binary = try simulator.configuration(for: topic, transport: .binary).credential.settings
    if case .certificate(let files) = binary {
      certificate = try read(files.certificate)
      key = try read(#require(files.key))
      let base = String(files.certificate.dropLast(4))
      container = try read(base + ".p12")
      passphrase = try String(decoding: read(base + ".pass").dropLast(), as: UTF8.self)
    }
    let http2 = try simulator.configuration(for: topic, transport: .http2).credential.settings
    if case .tokenKey(let file) = http2 {
      tokenKey = String(decoding: try read(file.file), as: UTF8.self)
      (keyID, teamID) = (file.keyIdentifier, file.teamIdentifier)
    }
  }
}

/// Credentials from memory, over real TLS.
@Suite struct CredentialTests {
  static let topic = SendTests.topic

  /// Sends with the credential, through a deployment of its own.
  private static func send(
    _ simulator: Simulator, _ transport: Simulator.Transport, _ credential: AppConfiguration.Credential
  ) async throws -> PushOutcome {
    var configuration = try simulator.configuration(for: topic, transport: transport)
    configuration.credential = credential
    let deployment = try Deployment(apps: [configuration], threads: 1)
    return try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask { try await deployment.run() }
      let outcome = try await deployment.app(topic).send(PushNotification(alert: "1"), to: SendTests.token(1))
      tasks.cancelAll()
      try await tasks.waitForAll()
      return outcome
    }
  }

  @Test("a certificate and its key in PEM, apart and together", arguments: Simulator.Transport.allCases)
  func pem(transport: Simulator.Transport) async throws {
    try await withSimulator(apps: [Self.topic]) { simulator in
      let material = try CredentialMaterial(simulator, topic: Self.topic)
      let apart = AppConfiguration.Credential.certificate(pem: material.certificate, key: material.key)
      #expect(try await Self.send(simulator, transport, apart).isAccepted)
      let together = AppConfiguration.Credential.certificate(pem: material.certificate + material.key)
      #expect(try await Self.send(simulator, transport, together).isAccepted)
      #expect(simulator.accepted(Self.topic).count == 2)
    }
  }

  @Test("a PKCS#12 container with its passphrase", arguments: Simulator.Transport.allCases)
  func pkcs12(transport: Simulator.Transport) async throws {
    try await withSimulator(apps: [Self.topic]) { simulator in
      let material = try CredentialMaterial(simulator, topic: Self.topic)
      let credential = AppConfiguration.Credential.certificate(
        pkcs12: material.container, passphrase: material.passphrase)
      #expect(try await Self.send(simulator, transport, credential).isAccepted)
      #expect(simulator.accepted(Self.topic).count == 1)
    }
  }

  @Test("the text of a token key")
  func tokenKey() async throws {
    try await withSimulator(apps: [Self.topic]) { simulator in
      let material = try CredentialMaterial(simulator, topic: Self.topic)
      let credential = AppConfiguration.Credential.tokenKey(
        pem: material.tokenKey, keyID: material.keyID, teamID: material.teamID)
      #expect(try await Self.send(simulator, .http2, credential).isAccepted)
      let app = try simulator.deployment.app(Self.topic)
      try await app.replaceCredential(credential)
      #expect(try await app.send(PushNotification(alert: "2"), to: SendTests.token(1)).isAccepted)
      let error = await #expect(throws: CarillonError.self) { try await Self.send(simulator, .binary, credential) }
      #expect(error?.code == .configuration)
    }
  }

  @Test("what cannot be used says why; secrets are neither printed nor encoded")
  func mistakes() async throws {
    try await withSimulator(apps: [Self.topic]) { simulator in
      let material = try CredentialMaterial(simulator, topic: Self.topic)
      var configuration = try simulator.configuration(for: Self.topic, transport: .binary)
      func message(_ credential: AppConfiguration.Credential) -> String? {
        configuration.credential = credential
        do throws(CarillonError) {
          _ = try Deployment(apps: [configuration])
          return nil
        } catch {
          #expect(error.code == .credential)
          return error.message
        }
      }
      #expect(message(.certificate(pem: material.certificate))?.contains("holds no private key") == true)
      #expect(message(.certificate(pkcs12: material.container))?.contains("give its passphrase") == true)
      let wrong = message(.certificate(pkcs12: material.container, passphrase: "wrong"))
      #expect(wrong?.contains("does not open the certificate in memory") == true)
      #expect(message(.certificate(pkcs12: [1, 2, 3])) != nil)

      let credential = AppConfiguration.Credential.certificate(pem: material.certificate, key: material.key)
      configuration.credential = credential
      var text = "\(configuration)"
      dump(configuration, to: &text)
      #expect(text.contains("(secret)"))
      #expect(!text.contains("\(material.key[0]), \(material.key[1])"))
      #expect(throws: EncodingError.self) { try JSONEncoder().encode(credential.settings) }
    }
  }
}
