package import Carillon
package import Logging
internal import PushEngine
package import PushStore
internal import ServiceLifecycle

/// Sends the campaigns of a service, and forgets them in the end.
package final class CampaignRunner: Service {
  package let controller: CampaignController
  package let spool: CampaignSpool
  package let recorder: CampaignRecorder
  private let outcomes: OutcomeRecorder
  /// Nil: this process sends whole parts.
  private let carrier: SegmentCarrier?
  private let hasRecovered = ReaderSignal()
  private let deployment: Deployment
  private let schedule: CampaignSchedule
  private let retention: Duration
  private let logger: Logger

  private static let tidyInterval = Duration.seconds(60)

  /// - Parameter incarnation: of this process among those that share the store, once it has joined.
  package init(
    controller: CampaignController, spool: CampaignSpool, recorder: CampaignRecorder, outcomes: OutcomeRecorder,
    deployment: Deployment, schedule: CampaignSchedule, retention: Duration,
    incarnation: @escaping @Sendable () -> Int64, logger: Logger
  ) {
    (self.controller, self.spool, self.recorder, self.outcomes) = (controller, spool, recorder, outcomes)
    (self.deployment, self.schedule, self.retention, self.logger) = (deployment, schedule, retention, logger)
    carrier = controller.store.ledger.map { ledger in
      SegmentCarrier(
        ledger: ledger, incarnation: incarnation, controller: controller, deployment: deployment, outcomes: outcomes,
        spool: spool, schedule: schedule, logger: logger)
    }
  }

  /// How many campaigns of an app may be there that have not ended.
  package func openLimit(_ app: String) -> Int { schedule.app(app).openCampaignLimit }

  /// How many bytes the audience of a campaign may have, because of the app's others.
  package func audienceByteLimit(_ campaign: CampaignHead) async throws(StoreError) -> Int64 {
    schedule.app(campaign.app).audienceByteLimit
      - (try await controller.store.audienceByteCount(app: campaign.app, besides: campaign.id))
  }

  /// Resumes the campaigns of earlier processes.
  package func recover() async throws(StoreError) {
    deployment.settle(served: try await endedRemainders(deployment.servedRemainders.map(\.name)))
    for campaign in try await controller.store.openCampaigns(of: .all, in: nil, limit: nil) {
      controller.wake(campaign)
    }
    hasRecovered.set()
  }

  /// Of parts in the journal, those whose final accounts the store has.
  func endedRemainders(_ names: [String]) async throws(StoreError) -> Set<String> {
    let parts = names.compactMap { name in StoredUUID.part(named: name).map { (name, $0.0, $0.1) } }
    let progress = try await controller.store.progress(of: Array(Set(parts.map(\.1))))
    return Set(
      parts.filter { _, id, number in progress[id]?.contains { $0.number == number && $0.endedAt != nil } == true }
        .map(\.0))
  }

  func run() async throws {
    // Whether it is asked to end, or is cancelled because another service has failed.
    await withTaskCancellationHandler {
      await withGracefulShutdownHandler {
        await withDiscardingTaskGroup { tasks in
          tasks.addTask { await self.tidy() }
          if let carrier = self.carrier {
            tasks.addTask {
              await self.waitUntilRecovered()
              if !Task.isCancelled { await carrier.run() }
            }
          }
          while let lives = await controller.work.take() {
            for live in lives { tasks.addTask { await self.drive(live) } }
          }
          tasks.cancelAll()
        }
      } onGracefulShutdown: {
        self.controller.work.close()
      }
    } onCancel: {
      controller.work.close()
    }
  }

  private func waitUntilRecovered() async {
    await withTaskCancellationHandler {
      await hasRecovered.wait()
    } onCancel: {
      hasRecovered.set()
    }
  }

  private func drive(_ live: LiveCampaign) async {
    let parts = CampaignParts(
      spool: spool, recorder: recorder, outcomes: outcomes, store: controller.store, clock: controller.clock,
      live: live, plantedMistake: controller.plantedMistake)
    await CampaignDriver(
      controller: controller, deployment: deployment, parts: parts, schedule: schedule, live: live, logger: logger
    ).run()
  }

  private func tidy() async {
    let cleaning = CampaignCleaning(controller: controller, spool: spool)
    var isFirst = true
    while !Task.isCancelled {
      do throws(StoreError) {
        if isFirst { try await cleaning.removeOrphans() }
        isFirst = false
        let oldest = controller.clock.now.after(seconds: -retention.components.seconds)
        try await cleaning.forget(endedBefore: oldest)
        try await cleaning.forget(draftsUnchangedSince: oldest)
      } catch {
        logger.error("the store cannot be written", metadata: ["why": "\(error)"])
      }
      try? await controller.clock.sleep(for: Self.tidyInterval)
    }
  }
}
