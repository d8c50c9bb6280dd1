internal import Carillon
internal import Logging

/// Runs a ``Daemon``, and another one in the same process after its journal has failed and can be
/// written again.
package struct RestartingDaemon: Sendable {
  private let configuration: ServerConfiguration
  private let file: String
  private let log: ServiceLog
  private let manager: ServiceManager?
  private let overdue: @Sendable (String) -> Void

  /// A shorter run doubles the pause until the next attempt.
  private static let stableRun = Duration.seconds(60)
  private static let pauses = Duration.seconds(1) ... .seconds(60)

  /// - Parameters: as ``Daemon`` has them.
  package init(
    _ configuration: ServerConfiguration, file: String, log: ServiceLog, manager: ServiceManager?,
    overdue: @escaping @Sendable (String) -> Void
  ) {
    self.configuration = configuration
    self.file = file
    self.log = log
    self.manager = manager
    self.overdue = overdue
  }

  /// - Parameter ready: called once, when everything listens for the first time.
  package func run(ready: @escaping @Sendable (Daemon.Ports) -> Void) async throws {
    var configuration = configuration
    var pause = Self.pauses.lowerBound
    var ready = ready
    var daemon = try make(configuration, pause)
    while true {
      let began = ContinuousClock.now
      guard case .restart(let ports) = try await daemon.run(ready: ready) else { return }
      pause =
        ContinuousClock.now - began < Self.stableRun
        ? min(pause * 2, Self.pauses.upperBound) : Self.pauses.lowerBound
      configuration.listen(on: ports)
      daemon = try next(&configuration, ports, pause)
      ready = { _ in }
    }
  }

  private func make(_ configuration: ServerConfiguration, _ pause: Duration) throws(CarillonError) -> Daemon {
    try Daemon(configuration, file: file, log: log, manager: manager, recoveryPause: pause, overdue: overdue)
  }

  /// The next daemon reads the file again. If the file cannot be used now, the previous
  /// configuration stays in force.
  private func next(
    _ configuration: inout ServerConfiguration, _ ports: Daemon.Ports, _ pause: Duration
  ) throws(CarillonError) -> Daemon {
    if var read = try? ServerConfiguration.read(file: file) {
      read.listen(on: ports)
      if let daemon = try? make(read, pause) {
        configuration = read
        return daemon
      }
    }
    log.logger.error("the configuration stays as it was", metadata: ["file": "\(file)"])
    return try make(configuration, pause)
  }
}

extension ServerConfiguration {
  /// Where any free port was asked for, it is the one that clients know.
  fileprivate mutating func listen(on ports: Daemon.Ports) {
    if api.listen.port == 0 { api.listen.port = ports.api }
    if admin.listen.port == 0 { admin.listen.port = ports.admin }
    if bridge?.listen.port == 0, let port = ports.bridge { bridge?.listen.port = port }
    if bridge?.feedback?.port == 0, let port = ports.bridgeFeedback { bridge?.feedback?.port = port }
  }
}
