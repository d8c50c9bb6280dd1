internal import Carillon
internal import Logging

/// Runs a ``Daemon``, and another one after its journal has failed and can be written again.
package struct RestartingDaemon: Sendable {
  private let configuration: ServerConfiguration
  private let file: String
  private let log: ServiceLog
  private let manager: ServiceManager?
  private let overdue: @Sendable (String) -> Void

  /// A shorter run doubles the pause until the next attempt.
  private static let stableRun = Duration.seconds(60)
  private static let pauses = Duration.seconds(1) ... .seconds(60)

  package init(
    _ configuration: ServerConfiguration, file: String, log: ServiceLog, manager: ServiceManager?,
    overdue: @escaping @Sendable (String) -> Void
  ) {
    (self.configuration, self.file, self.log, self.manager, self.overdue) = (configuration, file, log, manager, overdue)
  }

  /// - Parameter ready: called once, when everything listens for the first time.
  package func run(ready: @escaping @Sendable (Daemon.Ports) -> Void) async throws {
    var configuration = configuration
    var pause = Self.pauses.lowerBound
    var ready = ready
    // Where the last daemon listened; nil: none has served.
    var ports: Daemon.Ports?
    var log = PacedReason()
    while true {
      let began = ContinuousClock.now
      do {
        let daemon = try next(&configuration, pause, ports)
        do {
          guard case .restart(let open) = try await daemon.run(ready: ready) else { return }
          ports = open
        } catch {
          guard !daemon.wasAskedToEnd, !daemon.hasServed else { throw Ended(error: error) }
          throw error
        }
      } catch let ended as Ended {
        throw ended.error
      } catch {
        let folders = configuration.folders(besides: file).map(DiskState.nearest)
        let decision = StartDecision.after("\(error)", hasServed: ports != nil, disk: await DiskState.all(folders))
        guard case .wait(let reason) = decision else { throw error }
        let isLogged = log.isDue(reason, at: .now)
        pause = min(pause * 2, Self.pauses.upperBound)
        let wait = DiskWait(
          reason: reason, folders: folders, pause: ports != nil ? pause : .zero, manager: manager,
          logger: self.log.logger, isLogged: isLogged)
        guard try await wait.wait() else { return }
        continue
      }
      pause =
        ContinuousClock.now - began < Self.stableRun
        ? min(pause * 2, Self.pauses.upperBound) : Self.pauses.lowerBound
      ready = { _ in }
    }
  }

  /// An error after which no other daemon is tried.
  private struct Ended: Error {
    let error: any Error
  }

  /// A reason is logged when it changes, and once a minute.
  private struct PacedReason {
    var last: (reason: String, at: ContinuousClock.Instant)?

    mutating func isDue(_ reason: String, at now: ContinuousClock.Instant) -> Bool {
      if let last, last.reason == reason, now - last.at < .seconds(60) { return false }
      last = (reason, now)
      return true
    }
  }

  private func make(_ configuration: ServerConfiguration, _ pause: Duration) throws(CarillonError) -> Daemon {
    try Daemon(configuration, file: file, log: log, manager: manager, recoveryPause: pause, overdue: overdue)
  }

  /// The next daemon reads the file again, and keeps the previous one if that fails.
  private func next(
    _ configuration: inout ServerConfiguration, _ pause: Duration, _ ports: Daemon.Ports?
  ) throws(CarillonError) -> Daemon {
    guard let ports else { return try make(configuration, pause) }
    configuration.listen(on: ports)
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
