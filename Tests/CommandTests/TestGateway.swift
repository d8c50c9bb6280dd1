internal import Foundation
internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support

/// A gateway in the test's own process. Its record is the truth that accounts are compared with. It
/// can be stopped and started again on the same port.
actor TestGateway {
  static let refusedPrefix = "dead"

  /// The record of all starts together.
  nonisolated let memory = RecordedFrames()
  nonisolated let files: CertificateMaker.Files
  private(set) var port = 0
  private let answerDelay: Duration
  private var simulator: GatewaySimulator?
  private var acceptedBefore = 0

  /// Makes certificates for the topics in `place`. It does not listen yet.
  init(in place: Workplace, topics: [String], answerDelay: Duration = .zero) throws {
    self.answerDelay = answerDelay
    files = try CertificateMaker.makeAll(
      in: place.path("certs"), topics: topics, at: Int64(Date().timeIntervalSince1970))
  }

  /// - Parameter limit: The gateway reads only this many good notifications on each connection, so
  ///   that no campaign can end.
  func start(readingUpTo limit: Int? = nil) async throws {
    var configuration = GatewaySimulator.Configuration(identity: .files(files.server, clientAuthority: files.authority))
    configuration.gatewayPort = port
    configuration.threads = 1
    configuration.memory = memory
    configuration.rules.common.refuse = [Faults.Refuse(Faults.Selection(prefixes: [Self.refusedPrefix]))]
    configuration.rules.common.answerDelay = answerDelay
    if let limit {
      configuration.rules.common.stopReading = Faults.Pause(Faults.Breakpoint(after: limit), duration: .seconds(600))
    }
    var tries = 20
    while simulator == nil {
      if port == 0 { configuration.gatewayPort = OwnPort.random() }
      do {
        let started = try await GatewaySimulator.start(configuration)
        simulator = started
        port = started.gatewayPort
      } catch {
        // A child that was started at the wrong moment may have inherited the listening socket.
        tries -= 1
        guard tries > 0 else { throw error }
        try await Task.sleep(for: .milliseconds(500))
      }
    }
  }

  /// Connected clients get status 10 and have a second to close.
  func stop() async {
    guard let simulator else { return }
    self.simulator = nil
    acceptedBefore += await simulator.stop().sum(\.accepted)
  }

  /// How many notifications have arrived, to within the last read.
  var acceptedCount: Int { acceptedBefore + (simulator?.truth().sum(\.accepted) ?? 0) }

  /// The number of connections since it was last started.
  var connectionCount: Int { simulator?.truth().sum(\.connections) ?? 0 }

  /// The number of different tokens that have arrived.
  nonisolated var arrivedTokenCount: Int { Set(memory.frames.filter { $0.refusal == nil }.compactMap(\.token)).count }
}

extension GroundTruth {
  /// Over all apps, binary protocol.
  fileprivate func sum(_ count: (AppTruth) -> Int) -> Int { apps.values.reduce(0) { $0 + count($1) } }
}
