internal import Logging
internal import PushStore
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import Carillon
@testable internal import PushEngine
@testable internal import PushService

/// One process of a service that sends campaigns: the real controller, drivers and recorder.
final class ServedCampaignProcess: Sendable {
  let clock: SimulatedClock
  let controller: CampaignController
  let store: SimulatedStore
  private let engine: SimulatedProcess
  private let deployment: SimulatedDeployment
  private let runner: CampaignRunner
  private let ended = Atomic<Bool>(false)
  private let isClosing = Atomic<Bool>(false)
  private let task = Mutex<Task<Void, Never>?>(nil)
  private let outcomes: OutcomeRecorder

  init(
    _ engine: SimulatedProcess, _ configuration: AppConfiguration, _ store: SimulatedStore, _ outcomes: OutcomeRecorder,
    _ clock: SimulatedClock, _ app: CampaignTimes.App, spool: CampaignSpool, mistake: CampaignController.PlantedMistake?
  ) throws {
    (self.engine, self.store, self.outcomes, self.clock) = (engine, store, outcomes, clock)
    let deployment = try SimulatedDeployment(engine, configuration, outcomes) { clock.milliseconds }
    self.deployment = deployment
    controller = CampaignController(store: store, clock: clock, plantedMistake: mistake)
    runner = CampaignRunner(
      controller: controller, spool: spool, recorder: outcomes.campaigns, outcomes: outcomes,
      deployment: deployment.deployment,
      schedule: CampaignSchedule(deployment: deployment.deployment) { _ in app },
      retention: .seconds(86_400 * 7), logger: Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() })
  }

  var remainder: String { "runner \(ended.load(ordering: .relaxed)) deployment \(deployment.hasEnded)" }
  var hasEnded: Bool { ended.load(ordering: .relaxed) && deployment.hasEnded }

  /// Recovers what earlier processes have left, and serves.
  func begin() {
    let task = Task(executorPreference: clock.loop) { [self] in
      // A service that cannot read its store starts again.
      while !Task.isCancelled, (try? await recover()) == nil { try? await clock.sleep(for: .seconds(1)) }
      try? await runner.run()
      ended.store(true, ordering: .relaxed)
    }
    self.task.withLock { $0 = task }
  }

  private func recover() async throws {
    try outcomes.restoreDeferred()
    try await runner.recover()
  }

  /// Somebody asks for something; it is asked for again until it is answered.
  func perform(at instant: Instant, _ body: @escaping @Sendable (CampaignController) async throws -> Void) {
    _ = clock.loop.schedule(at: instant) { [self] in
      _ = Task(executorPreference: clock.loop) { [self] in
        while !isClosing.load(ordering: .relaxed) {
          do { return try await body(controller) } catch is Problem { return } catch {
            try? await clock.sleep(for: .seconds(1))
          }
        }
      }
    }
  }

  func resume(_ id: StoredUUID) async throws {
    _ = try await ForgottenParts(controller: controller, deployment: deployment.deployment).resume(id)
  }

  /// Ends all of it.
  func close() {
    isClosing.store(true, ordering: .relaxed)
    task.withLock { $0 }?.cancel()
    controller.work.close()
    deployment.runtime.runs.cancelAll()
    deployment.close()
  }
}
