internal import Foundation
internal import PushGateway
internal import PushTransport
internal import Support
internal import Testing

@testable internal import CarillonCommand

/// A simulator's HTTP/2 service, and a folder with a sender's files.
struct HTTP2Site {
  static let topic = CertificateFixture.topic
  static let keyIdentifier = "ABC123DEFG"
  static let team = "DEF123GHIJ"

  let place: Workplace
  let certificates: CertificateFixture
  /// In the folder.
  static let keyFile = "AuthKey_ABC123DEFG.p8"

  init() throws {
    place = try Workplace()
    certificates = try CertificateFixture(in: place)
    try ProviderKey.make(keyIdentifier: Self.keyIdentifier, teamIdentifier: Self.team).write(
      to: place.path(Self.keyFile))
    try place.write(#"{"aps":{"alert":"Hello"}}"#, to: "hello.json")
    try place.write(#"{"aps":{"timestamp":1700000000,"event":"update","content-state":{"score":1}}}"#, to: "goal.json")
  }

  /// A folder of its own for a sender with the same credential, which trusts the same simulators.
  init(sameCredentialAs other: HTTP2Site) throws {
    (place, certificates) = (try Workplace(), other.certificates)
    try FileManager.default.copyItem(atPath: other.place.path(Self.keyFile), toPath: place.path(Self.keyFile))
  }

  struct Service {
    let simulator: any TestProgram
    let port: String
    let channelsPort: String
  }

  /// Starts a service that accepts the site's key and records requests in `truth.jsonl`.
  ///
  /// - Parameter port: nil: one of its own, with which it can come back.
  func simulate(rules: String = "", port: String? = nil) async throws -> Service {
    try place.write(rules, to: "rules.yaml")
    if let programs = InProcess.programs { return try await simulateHere(rules, port, programs) }
    for _ in 0..<20 where port == nil {
      if let service = try await started(rules, port: String(OwnPort.random())).service { return service }
    }
    let (service, simulator) = try await started(rules, port: port ?? "0")
    return try #require(service, "the simulator did not start: \(simulator.errors)")
  }

  /// The same in this process.
  private func simulateHere(_ rules: String, _ port: String?, _ programs: LocalPrograms) async throws -> Service {
    var configuration = GatewaySimulator.Configuration(
      identity: .files(certificates.files.server, clientAuthority: certificates.files.authority))
    configuration.channelsPort = 0
    configuration.tokenKeys = [
      ServiceSettings.KeyFile(
        file: place.path(Self.keyFile), keyIdentifier: Self.keyIdentifier, teamIdentifier: Self.team)
    ]
    if !rules.isEmpty { configuration.rules = try FaultRules.read(file: place.path("rules.yaml")) }
    configuration.rules.checksJSON = true
    configuration.recordPath = place.path("truth.jsonl")
    configuration.threads = 1
    var service: Service?
    // A child that was started at the wrong moment may have inherited the listening socket.
    try await waitUntil("the port is free") {
      configuration.http2Port = port.flatMap { Int($0) } ?? OwnPort.random()
      guard let simulator = try? await GatewaySimulator.start(configuration) else { return false }
      let program = LocalProgram()
      program.writeLine(simulator.readyJSON)
      programs.start(program) {
        var grace = Duration.zero
        for await signal in program.signals {
          if signal != SIGKILL { grace = .seconds(1) }
          break
        }
        program.writeLine(await simulator.stop(grace: grace).json)
        return 0
      }
      service = Service(
        simulator: program, port: "\(simulator.http2Port ?? 0)", channelsPort: "\(simulator.channelsPort ?? 0)")
      return true
    }
    return try #require(service)
  }

  private func started(_ rules: String, port: String) async throws -> (service: Service?, simulator: ChildProcess) {
    let arguments =
      [
        "simulate", "--gateway-port", "0", "--feedback-port", "0", "--http2-port", port, "--channels-port", "0",
        "--json", "--record", "truth.jsonl",
        "--token-key", Self.keyFile, "--key-id", Self.keyIdentifier, "--team-id", Self.team,
      ] + (rules.isEmpty ? [] : ["--rules", "rules.yaml"]) + certificates.server
    let simulator = try ChildProcess(arguments, directory: place.url)
    guard let line = await simulator.line(0) else { return (nil, simulator) }
    let service = Service(
      simulator: simulator, port: try String(#require(line.firstMatch(of: /"http2":(\d+)/)).1),
      channelsPort: try String(#require(line.firstMatch(of: /"channels":(\d+)/)).1))
    return (service, simulator)
  }

  /// The sender's flags for the token key.
  var key: [String] {
    [
      "--token-key", Self.keyFile, "--team-id", Self.team, "--topic", Self.topic, "--trust",
      certificates.files.authority,
    ]
  }

  func send(_ service: Service, _ arguments: [String], by identity: [String]? = nil) async throws -> Ending {
    try await run(
      ["send", "--transport", "http2", "--gateway", "localhost:\(service.port)"] + (identity ?? key) + arguments)
  }

  func run(_ arguments: [String]) async throws -> Ending { try await ChildProcess.run(arguments, directory: place.url) }

  /// Kills a sender when the service's record has this many bytes. Uses a thread of its own,
  /// because those of the tests may all be busy.
  func kill(_ sender: ChildProcess, afterRecording byteCount: Int) async throws {
    let record = place.path("truth.jsonl")
    let end = ContinuousClock.now + .seconds(600)
    let isInTime = await withCheckedContinuation { continuation in
      Thread.detachNewThread {
        func recordedByteCount() -> Int {
          (try? FileManager.default.attributesOfItem(atPath: record)[.size] as? Int) ?? 0
        }
        while !sender.hasEnded, recordedByteCount() < byteCount, ContinuousClock.now < end { usleep(2_000) }
        sender.send(SIGKILL)
        continuation.resume(returning: ContinuousClock.now < end)
      }
    }
    _ = await sender.ending()
    try #require(isInTime, "the service's record has fewer than \(byteCount) bytes after 10 minutes")
  }

  static func token(_ number: Int, prefix: String = "00") -> String {
    let digits = String(number, radix: 16)
    return prefix + String(repeating: "0", count: 64 - prefix.count - digits.count) + digits
  }

  struct Taken: Decodable, Hashable {
    let token: String?
    let id: String
    let type: String
    let collapse: String?
    var expiration: String?
    /// Its SHA-256.
    var payload: String?
    let topic: String?
    /// Nil: accepted.
    let refused: String?
  }

  /// Ends the service and returns what it accepted.
  func taken(_ service: Service) async throws -> [Taken] {
    service.simulator.send(SIGTERM)
    _ = await service.simulator.ending()
    let all = try place.read("truth.jsonl").split(separator: "\n").map {
      try JSONDecoder().decode(Taken.self, from: Data($0.utf8))
    }
    return all.filter { $0.refused == nil }
  }
}
