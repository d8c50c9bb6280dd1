internal import Foundation
internal import PushGateway
internal import PushTransport

/// Runs a simulator on sockets for one test. Its throw-away certificates are in a directory that is
/// removed at the end.
func withSimulator(
  _ faults: Faults = Faults(),
  topics: [String] = ["app"],
  configure: (inout GatewaySimulator.Configuration) -> Void = { _ in },
  _ body: (GatewaySimulator, RecordedFrames) async throws -> Void
) async throws {
  let directory = FileManager.default.temporaryDirectory.appendingPathComponent("gateway-\(UUID().uuidString)").path
  defer { try? FileManager.default.removeItem(atPath: directory) }
  let memory = RecordedFrames()
  var configuration = GatewaySimulator.Configuration(identity: .throwAway(directory: directory, topics: topics))
  configuration.rules.common = faults
  configuration.memory = memory
  configuration.threads = 1
  configure(&configuration)
  let simulator = try await GatewaySimulator.start(configuration)
  do {
    try await body(simulator, memory)
  } catch {
    _ = await simulator.stop(grace: .zero)
    throw error
  }
  _ = await simulator.stop(grace: .zero)
}

extension GatewaySimulator {
  /// The gateway's truth about the usual topic, once all its connections have ended.
  func settledTruth() async -> AppTruth { await stop(grace: .zero).apps["app"] ?? AppTruth() }
}
