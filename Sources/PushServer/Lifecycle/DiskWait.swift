internal import Carillon
internal import Foundation
internal import Logging
internal import PushService
internal import PushWire
internal import ServiceLifecycle
internal import Synchronization
internal import UnixSignals

/// Whether a service that could not start waits for its disk, or ends.
enum StartDecision: Hashable, Sendable {
  /// Time may mend it.
  case wait(String)
  case end

  /// A first start waits only for a store that is away, and for a disk that is full or fails:
  /// anything else is for its operator to mend. A service that has served before waits whatever the
  /// reason is, because its clients rely on it.
  ///
  /// - Parameters:
  ///   - problem: why it could not start.
  ///   - isAway: the store does not answer.
  ///   - hasServed: whether an earlier life in this process has served.
  ///   - disk: of the journal and the store.
  static func after(_ problem: String, isAway: Bool = false, hasServed: Bool, disk: DiskState) -> StartDecision {
    if isAway { return .wait(problem) }
    if case .waiting(let code) = disk { return .wait("\(DiskState.message(code)): \(problem)") }
    return hasServed ? .wait(problem) : .end
  }
}

/// Waits before a service tries to start again. It answers the service manager meanwhile.
final class DiskWait: Service {
  private let reason: String
  private let folders: [String]
  private let pause: Duration
  private let clock: any ServiceClock
  private let manager: ServiceManager?
  private let logger: Logger
  private let isLogged: Bool
  private let isOver = Atomic<Bool>(false)

  init(
    reason: String, folders: [String], pause: Duration, clock: any ServiceClock, manager: ServiceManager?,
    logger: Logger, isLogged: Bool
  ) {
    (self.reason, self.folders, self.pause, self.clock, self.manager) = (reason, folders, pause, clock, manager)
    (self.logger, self.isLogged) = (logger, isLogged)
  }

  func run() async throws {
    // From here on, SIGTERM ends the wait in order.
    if isLogged { logger.error("the service waits until it can start", metadata: ["why": "\(reason)"]) }
    let status = "Waiting: \(reason)"
    let end = clock.uptime + pause
    await cancelWhenGracefulShutdown { [self] in
      var looks = 0
      while true {
        if looks % 8 == 0 { manager?.waits(status: status) }
        looks += 1
        guard (try? await clock.sleep(for: .seconds(1))) != nil else { return }
        if case .waiting = await DiskState.all(folders) { continue }
        guard clock.uptime >= end else { continue }
        return isOver.store(true, ordering: .relaxed)
      }
    }
  }

  /// - Returns: false if the process was asked to end.
  func wait() async throws -> Bool {
    var configuration = ServiceGroupConfiguration(
      services: [.init(service: self, successTerminationBehavior: .gracefullyShutdownGroup)], logger: logger)
    configuration.gracefulShutdownSignals = [.sigterm, .sigint]
    try await ServiceGroup(configuration: configuration).run()
    return isOver.load(ordering: .relaxed)
  }
}
