internal import Foundation
internal import Logging
internal import ServiceLifecycle
internal import Support
internal import Testing

@testable internal import PushServer

/// `carillon serve` in the test's own process: a daemon that is called, and gets no signals.
struct LocalService {
  let program: LocalProgram
  let api: APICalls
  let admin: APICalls

  /// - Parameter file: the configuration.
  /// - Returns: the service when it serves.
  static func start(_ file: String, in programs: LocalPrograms) async throws -> LocalService {
    let program = LocalProgram()
    let configuration = try ServerConfiguration.read(file: file)
    let log = ServiceLog(configuration.log) { program.writeError($0) }
    let daemon = try Daemon(configuration, file: file, log: log) { Issue.record("\($0)") }
    let run = daemon.prepareRun()
    let service = LocalService(
      program: program, api: APICalls(daemon.apiResponder(run), log.logger),
      admin: APICalls(daemon.adminResponder, log.logger))
    programs.start(program) {
      do {
        try await service.serve(daemon, run)
        return 0
      } catch is Killed {
        return 128 + SIGKILL
      } catch {
        program.writeError("carillon: \(error)")
        return 3
      }
    }
    _ = try #require(await program.line(0), "it does not serve: \(program.errors)")
    return service
  }

  /// SIGKILL was sent.
  private struct Killed: Error {}

  private func serve(_ daemon: Daemon, _ run: Daemon.Run) async throws {
    let front = Daemon.Front(
      api: CalledAPI(daemon: daemon, shared: run, calls: api) { [program] in program.writeLine("ready") })
    let group = ServiceGroup(
      services: [FrontedDaemon(daemon: daemon, shared: run, front: front)], logger: daemon.logger)
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask { try await group.run() }
      tasks.addTask { [program] in
        for await signal in program.signals {
          switch signal {
          case SIGHUP: await run.reloading.reload()
          // The journal and the store are closed all the same: what a crash leaves is not tested.
          case SIGKILL: throw Killed()
          default: await group.triggerGracefulShutdown()
          }
        }
      }
      defer { tasks.cancelAll() }
      try await tasks.next()
    }
  }
}

private struct FrontedDaemon: Service {
  let daemon: Daemon
  let shared: Daemon.Run
  let front: Daemon.Front

  func run() async throws { _ = try await daemon.serve(shared, through: front) }
}

/// Stands where the listener of the API stands.
private struct CalledAPI: Service {
  let daemon: Daemon
  let shared: Daemon.Run
  let calls: APICalls
  let opened: @Sendable () -> Void

  func run() async throws {
    try await daemon.recover(shared)
    daemon.becomeReady()
    opened()
    try await gracefulShutdown()
    await calls.finished()
  }
}
