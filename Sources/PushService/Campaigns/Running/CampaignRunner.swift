package import Carillon
internal import HTTPTypes
package import Logging
internal import PushEngine
package import PushStore
internal import ServiceLifecycle

/// Sends the campaigns of a service, and forgets them in the end.
///
/// Where several processes share the store all of them carry segments. One of them leads: it
/// decides when campaigns and their parts begin and end, and sends what is not shared.
package final class CampaignRunner: Service {
  package let controller: CampaignController
  package let files: AudienceFiles
  package let recorder: CampaignRecorder
  private let outcomes: OutcomeRecorder
  /// Nil: this process sends whole parts.
  private let carrier: SegmentCarrier?
  /// Nil: this process keeps rates alone.
  private let rates: SharedRates?
  private let leads: @Sendable () -> Bool
  private let isDraining: @Sendable () -> Bool
  private let hasRecovered = ReaderSignal()
  private let deployment: Deployment
  private let schedule: CampaignSchedule
  private let retention: Duration
  private let logger: Logger

  private static let tidyInterval = Duration.seconds(60)
  /// Between looks at what other processes have changed.
  private static let lookInterval = Duration.seconds(1)

  /// - Parameters:
  ///   - incarnation: of this process among those that share the store, once it has joined.
  ///   - leads: whether it is the one that leads.
  ///   - isDraining: whether it is to give back what it carries, and to begin nothing more.
  package init(
    controller: CampaignController, spool: CampaignSpool, recorder: CampaignRecorder, outcomes: OutcomeRecorder,
    deployment: Deployment, schedule: CampaignSchedule, retention: Duration,
    incarnation: @escaping @Sendable () -> Int64, pace: NodePace = NodePace(),
    leads: @escaping @Sendable () -> Bool = { true }, isDraining: @escaping @Sendable () -> Bool = { false },
    logger: Logger
  ) {
    (self.controller, self.recorder, self.outcomes) = (controller, recorder, outcomes)
    files = AudienceFiles(spool: spool, store: controller.store, clock: controller.clock)
    let files = files
    (self.deployment, self.schedule, self.retention, self.logger) = (deployment, schedule, retention, logger)
    (self.leads, self.isDraining) = (leads, isDraining)
    carrier = controller.store.ledger.map { ledger in
      SegmentCarrier(
        ledger: ledger, incarnation: incarnation, controller: controller, deployment: deployment, outcomes: outcomes,
        files: files, schedule: schedule, isDraining: isDraining, logger: logger)
    }
    rates = controller.store.ledger.map { ledger in
      SharedRates(ledger: ledger, incarnation: incarnation, pace: pace, deployment: deployment, controller: controller)
    }
    if rates != nil { deployment.shareRates() }
  }

  package var spool: CampaignSpool { files.spool }

  /// How many campaigns of an app may be there that have not ended.
  /// Adds a draft.
  ///
  /// - Throws: ``Problem`` with 409 if the app may have no more.
  package func add(_ plan: CampaignPlan, app: String) async throws -> StoredCampaign {
    let now = controller.clock.now
    var record = StoredCampaign(
      id: .make(at: now), app: app, state: CampaignState.draft.rawValue, content: [], createdAt: now)
    record.set(plan)
    let limit = schedule.app(app).openCampaignLimit
    guard try await controller.store.add(record, openLimit: limit) else {
      throw Problem(
        .conflict, "Too many campaigns",
        "The app has \(limit) campaigns that have not ended, and may have no more. Drafts count.",
        action: "Cancel those that are not needed, or ask the operator for more: campaigns: { unfinished: … }.")
    }
    return record
  }

  /// How many bytes the audience of a campaign may have, because of the app's others.
  package func audienceByteLimit(_ campaign: CampaignHead) async throws(StoreError) -> Int64 {
    schedule.app(campaign.app).audienceByteLimit
      - (try await controller.store.audienceByteCount(app: campaign.app, besides: campaign.id))
  }

  /// Whether it sends what no other process can: parts that are not shared.
  package var sendsAlone: Bool { controller.all.contains(where: \.isBusy) }

  /// Resumes the campaigns of earlier processes.
  package func recover() async throws(StoreError) {
    deployment.settle(served: try await endedRemainders(deployment.servedRemainders.map(\.name)))
    if leads() { _ = try await wakeChanged([:]) }
    hasRecovered.set()
  }

  /// Wakes the drivers of campaigns whose versions are not the known ones.
  private func wakeChanged(_ known: [StoredUUID: Int64]) async throws(StoreError) -> [StoredUUID: Int64] {
    let open = try await controller.store.openCampaigns(of: .all, in: nil, limit: nil)
    for campaign in open where known[campaign.id] != campaign.version { controller.wake(campaign) }
    return Dictionary(uniqueKeysWithValues: open.map { ($0.id, $0.version) })
  }

  /// Other processes change campaigns, and this one may begin to lead.
  private func keepLooking() async {
    var known: [StoredUUID: Int64] = [:]
    while !Task.isCancelled {
      try? await controller.clock.sleep(for: Self.lookInterval)
      if leads() { known = (try? await wakeChanged(known)) ?? known } else { known = [:] }
    }
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
              guard !Task.isCancelled else { return }
              async let looking: Void = self.keepLooking()
              async let sharing: Void? = self.rates?.run()
              await carrier.run()
              await looking
              await sharing
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

  /// Gives back what other processes can send, before this one ends.
  ///
  /// - Parameter limit: how long that may take.
  package func leave(within limit: Duration) async { await carrier?.leave(within: limit) }

  private func waitUntilRecovered() async {
    await withTaskCancellationHandler {
      await hasRecovered.wait()
    } onCancel: {
      hasRecovered.set()
    }
  }

  private func drive(_ live: LiveCampaign) async {
    guard leads() else { return }
    let parts = CampaignParts(
      files: files, recorder: recorder, outcomes: outcomes, store: controller.store, clock: controller.clock,
      live: live, schedule: schedule, plantedMistake: controller.plantedMistake)
    await CampaignDriver(
      controller: controller, deployment: deployment, parts: parts, schedule: schedule, live: live, leads: leads,
      isDraining: isDraining, logger: logger
    ).run()
  }

  private func tidy() async {
    let cleaning = CampaignCleaning(controller: controller, files: files)
    var isFirst = true
    while !Task.isCancelled {
      do throws(StoreError) {
        let leads = leads()
        // The one that leads removes the files of what it forgets.
        if isFirst || !leads { try await cleaning.removeOrphans() }
        isFirst = false
        if leads {
          let oldest = controller.clock.now.after(seconds: -retention.components.seconds)
          try await cleaning.forget(endedBefore: oldest)
          try await cleaning.forget(draftsUnchangedSince: oldest)
        }
      } catch {
        logger.error("the store cannot be written", metadata: ["why": "\(error)"])
      }
      try? await controller.clock.sleep(for: Self.tidyInterval)
    }
  }
}
