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
  /// Of the process before it on the same node.
  private let former: Int64?
  private let joined: @Sendable (Int64) -> Void
  private let incarnation = SharedNumber()
  /// Nil: no other process runs at the same time.
  let membership: NodeMembership?
  private let fenced = Atomic<Bool>(false)

  /// - Parameter isOneOfSeveral: other nodes run at the same time.
  init(
    _ engine: SimulatedProcess, _ configuration: AppConfiguration, _ store: SimulatedStore, _ outcomes: OutcomeRecorder,
    _ clock: SimulatedClock, _ app: CampaignTimes.App, spool: CampaignSpool, controller: CampaignController,
    former: Int64?, isOneOfSeveral: Bool = false, membershipMistake: NodeMembership.PlantedMistake? = nil,
    joined: @escaping @Sendable (Int64) -> Void
  ) throws {
    (self.engine, self.store, self.outcomes, self.clock) = (engine, store, outcomes, clock)
    (self.controller, self.former, self.joined) = (controller, former, joined)
    let deployment = try SimulatedDeployment(engine, configuration, outcomes) { clock.milliseconds }
    self.deployment = deployment
    let logger = Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() }
    let membership: NodeMembership? =
      isOneOfSeveral
      ? NodeMembership(
        store: store, name: "node-\(store.node)", memory: NodeMembership.Memory(former: former, note: joined),
        clock: clock, logger: logger, plantedMistake: membershipMistake,
        extendLease: { [deployment = deployment.deployment] in deployment.extendLease(until: $0, now: $1) }) : nil
    self.membership = membership
    runner = CampaignRunner(
      controller: controller, spool: spool, recorder: outcomes.campaigns, outcomes: outcomes,
      deployment: deployment.deployment,
      schedule: CampaignSchedule(deployment: deployment.deployment) { _ in app },
      retention: .seconds(86_400 * 7), incarnation: { [incarnation] in membership?.current ?? incarnation.value },
      leads: { membership?.leads ?? true }, isDraining: { membership?.isDraining ?? false }, logger: logger)
  }

  /// Of what other nodes may send, too.
  var lease: SendLease { deployment.deployment.core.lease }
  var remainder: String { "runner \(ended.load(ordering: .relaxed)) deployment \(deployment.hasEnded)" }
  /// Others have taken its place: the process has ended by itself.
  var isFenced: Bool { fenced.load(ordering: .relaxed) }
  var hasEnded: Bool { ended.load(ordering: .relaxed) && deployment.hasEnded }

  private let left = Atomic<Bool>(false)
  /// It has ended in good order, as far as others are concerned.
  var hasLeft: Bool { left.load(ordering: .relaxed) }

  /// Ends in good order: what others can send is given back first.
  func leave() {
    _ = Task(executorPreference: clock.loop) { [self] in
      await runner.leave(within: .seconds(60))
      await membership?.leave()
      left.store(true, ordering: .relaxed)
    }
  }

  func state(_ id: StoredUUID) -> String {
    "\(membership?.leads == true ? "leads" : "up") sending \(controller.live(id)?.isSending == true)"
  }

  /// Recovers what earlier processes have left, and serves.
  func begin() {
    let task = Task(executorPreference: clock.loop) { [self] in
      // A service that cannot read its store starts again.
      while !Task.isCancelled, (try? await recover()) == nil { try? await clock.sleep(for: .seconds(1)) }
      await withDiscardingTaskGroup { tasks in
        if let membership {
          tasks.addTask { [self] in
            do { try await membership.live() } catch is NodeMembership.Fenced {
              fenced.store(true, ordering: .relaxed)
            } catch {
              // It is closed.
            }
          }
        }
        try? await runner.run()
      }
      ended.store(true, ordering: .relaxed)
    }
    self.task.withLock { $0 = task }
  }

  /// Takes the place of the other node, which was killed: no time passes that shows it is silent.
  private func join() async throws {
    if let membership { return try await membership.enter() }
    guard store.ledger != nil, incarnation.value == 0 else { return }
    for node in try await store.nodes() ?? [] where node.isAlive && node.incarnation != former {
      _ = try await store.fence(node)
    }
    guard let own = try await store.join(store.node, replacing: former) else { throw SimulatedStore.failure }
    joined(own)
    incarnation.value = own
  }

  private func recover() async throws {
    try await join()
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

final class SharedNumber: Sendable {
  private let number = Atomic<Int64>(0)

  var value: Int64 {
    get { number.load(ordering: .relaxed) }
    set { number.store(newValue, ordering: .relaxed) }
  }
}
