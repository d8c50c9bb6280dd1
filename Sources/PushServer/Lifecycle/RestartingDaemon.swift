internal import Carillon
internal import Logging
package import PushService
internal import PushStore
internal import PushWire

/// Runs a ``Daemon``, and another one after its journal has failed and can be written again.
package struct RestartingDaemon: Sendable {
  private let configuration: ServerConfiguration
  private let file: String
  private let log: ServiceLog
  private let program: ProgramFacts
  private let manager: ServiceManager?
  private let clock: any ServiceClock
  private let overdue: @Sendable (String) -> Void

  package init(
    _ configuration: ServerConfiguration, file: String, log: ServiceLog, program: ProgramFacts,
    manager: ServiceManager?, clock: any ServiceClock = MachineClock(), overdue: @escaping @Sendable (String) -> Void
  ) {
    (self.configuration, self.file, self.log, self.manager) = (configuration, file, log, manager)
    (self.program, self.clock, self.overdue) = (program, clock, overdue)
  }

  /// - Parameter ready: called once, when everything listens for the first time.
  package func run(ready: @escaping @Sendable (Daemon.Ports) -> Void) async throws {
    var configuration = configuration
    var pause = RestartPause()
    var ready = ready
    // Where the last daemon listened; nil: none has served.
    var ports: Daemon.Ports?
    var log = PacedReason()
    self.log.logger.notice(
      "carillon starts", metadata: ["version": "\(ProgramFacts.version)", "commit": "\(program.commitText)"])
    while true {
      let began = clock.uptime
      do {
        let daemon = try next(&configuration, pause.duration, ports)
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
        let storeError = error as? StoreError
        let decision = StartDecision.after(
          "\(error)", isAway: storeError?.kind == .away, hasServed: ports != nil, disk: await DiskState.all(folders))
        guard case .wait(let reason) = decision else {
          throw storeError.map { CarillonError(.journal, $0.description) } ?? error
        }
        let isLogged = log.isDue(reason, now: clock.uptime)
        pause.grow()
        let wait = DiskWait(
          reason: reason, folders: folders, pause: ports != nil ? pause.duration : .zero, clock: clock,
          manager: manager, logger: self.log.logger, isLogged: isLogged)
        guard try await wait.wait() else { return }
        continue
      }
      pause.adapt(toRun: clock.uptime.since(began))
      ready = { _ in }
    }
  }

  /// An error after which no other daemon is tried.
  private struct Ended: Error {
    let error: any Error
  }

  /// A reason is logged when it changes, and once a minute.
  struct PacedReason: Sendable {
    private var last: (reason: String, at: Instant)?

    mutating func isDue(_ reason: String, now: Instant) -> Bool {
      if let last, last.reason == reason, now.since(last.at) < .seconds(60) { return false }
      last = (reason, now)
      return true
    }
  }

  /// The pause until the next attempt. It doubles until a run lasts.
  struct RestartPause: Sendable {
    private(set) var duration = Self.bounds.lowerBound

    private static let bounds = Duration.seconds(1) ... .seconds(60)
    /// A run of this length lasts.
    private static let stableRun = Duration.seconds(60)

    mutating func grow() { duration = min(duration * 2, Self.bounds.upperBound) }

    mutating func adapt(toRun run: Duration) {
      if run < Self.stableRun { grow() } else { duration = Self.bounds.lowerBound }
    }
  }

  private func make(_ configuration: ServerConfiguration, _ pause: Duration) throws -> Daemon {
    try Daemon(
      configuration, file: file, log: log, program: program, manager: manager, clock: clock, recoveryPause: pause,
      overdue: overdue)
  }

  /// The next daemon reads the file again, and keeps the previous one if that fails.
  private func next(
    _ configuration: inout ServerConfiguration, _ pause: Duration, _ ports: Daemon.Ports?
  ) throws -> Daemon {
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
