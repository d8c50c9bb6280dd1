internal import PushEngine
internal import PushWire

extension AppRuntime {
  /// What a campaign of single notifications holds in memory at a time.
  private static let entryLimit = 256
  private static let payloadCapacity = 256 << 10

  /// Starts to send a queue of single notifications.
  func begin(_ queue: SingleSendQueue, _ group: PreparedNotification.Group) {
    queue.prepare(loop: engine.loop) { [entry] in entry.goneDevices.send($0) }
    let isTaken = engine.jobs.put { [self] in await serve(queue, group) }
    if !isTaken { queue.ended(.failure(DeploymentCore.hasEnded)) }
  }

  private func serve(_ queue: SingleSendQueue, _ group: PreparedNotification.Group) async {
    do throws(CarillonError) {
      try await send(queue, group)
      // Those that were still in the queue when the app was stopped.
      queue.ended(.success(.cancelled))
    } catch {
      queue.ended(.failure(error))
    }
    sends.ended(queue, group)
  }

  private func send(_ queue: SingleSendQueue, _ group: PreparedNotification.Group) async throws(CarillonError) {
    let campaign = group.campaign()
    var context = CampaignContext()
    context.isSingleSends = true
    let number = try await engine.begin(campaign, app: entry.id, context: context)
    let campaignRun = try begin(campaign, number, listener: queue)
    // Every caller got an outcome, so nothing is sent again.
    let registered = runs.add(
      RunRegistry.Run(drain: { queue.finish() }, cancel: { campaignRun.abandon() }))
    if registered == nil { queue.finish() }
    do throws(AudienceError) {
      try await campaignRun.run(
        queue, chunk: AudienceChunk(entryLimit: Self.entryLimit, payloadCapacity: Self.payloadCapacity))
    } catch {
      preconditionFailure("a queue cannot fail")
    }
    if let registered { runs.remove(registered) }
  }

  func begin(
    _ campaign: Campaign, _ number: UInt64?, settlesRest: Bool = false, listener: (any OutcomeListener)?
  ) throws(CarillonError) -> CampaignRun {
    do throws(AppFailure) {
      return try CampaignRun(campaign, through: app, journalled: number, settlesRest: settlesRest, listener: listener)
    } catch {
      throw CarillonError(.gateway, "The app \"\(entry.id)\" has stopped: \(error.reason).")
    }
  }
}

extension RunningEngine {
  /// Writes down that a campaign begins. Nil without a journal.
  func begin(_ campaign: Campaign, app: String, context: CampaignContext) async throws(CarillonError) -> UInt64? {
    guard let journal else { return nil }
    do throws(JournalProblem) {
      let beginning = EngineJournal.Beginning(app: app, campaign: campaign, context: context.bytes)
      return try await journal.begin([beginning]).first
    } catch {
      throw CarillonError(.journal, "\(error)")
    }
  }
}
