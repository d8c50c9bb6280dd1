internal import PushEngine
internal import PushWire

extension AppRuntime {
  /// What one run of single sends holds in memory at a time.
  private static let entryLimit = 256
  private static let payloadCapacity = 256 << 10

  /// Starts a run of single sends.
  func begin(_ run: SendRun, _ group: PreparedNotification.Group) {
    run.prepare(loop: engine.loop) { [entry] in entry.goneDevices.send($0) }
    let isTaken = engine.jobs.put { [self] in await serve(run, group) }
    if !isTaken { run.ended(.failure(DeploymentCore.hasEnded)) }
  }

  private func serve(_ run: SendRun, _ group: PreparedNotification.Group) async {
    do throws(CarillonError) {
      try await send(run, group)
      // Those that were still in the queue when the app was stopped.
      run.ended(.success(.cancelled))
    } catch {
      run.ended(.failure(error))
    }
    sends.ended(run, group)
  }

  private func send(_ run: SendRun, _ group: PreparedNotification.Group) async throws(CarillonError) {
    let campaign = group.campaign()
    let number = try await engine.begin(campaign, app: entry.id, context: CampaignNote(isSingleSends: true))
    let campaignRun = try begin(campaign, number, listener: run)
    // Whoever sent something got an outcome: nothing of it is to be sent again.
    let registered = runs.add(
      RunRegistry.Run(drain: { run.finish() }, cancel: { campaignRun.abandon() }))
    if registered == nil { run.finish() }
    do throws(AudienceError) {
      try await campaignRun.run(
        run, chunk: AudienceChunk(entryLimit: Self.entryLimit, payloadCapacity: Self.payloadCapacity))
    } catch {
      preconditionFailure("a queue cannot fail")
    }
    if let registered { runs.remove(registered) }
  }

  func begin(
    _ campaign: Campaign, _ number: UInt64?, listener: (any OutcomeListener)?
  ) throws(CarillonError) -> CampaignRun {
    do throws(AppFailure) {
      return try CampaignRun(campaign, through: app, journalled: number, listener: listener)
    } catch {
      throw CarillonError(.gateway, "The app \"\(entry.id)\" has stopped: \(error.reason).")
    }
  }
}

extension RunningEngine {
  /// Writes down that a campaign begins. Nil without a journal.
  func begin(_ campaign: Campaign, app: String, context: CampaignNote) async throws(CarillonError) -> UInt64? {
    guard let journal else { return nil }
    do throws(JournalProblem) {
      let beginning = EngineJournal.Beginning(app: app, campaign: campaign, context: context.bytes)
      return try await journal.begin([beginning]).first
    } catch {
      throw CarillonError(.journal, "\(error)")
    }
  }
}
