internal import PushEngine
internal import PushWire

extension AppRuntime {
  /// Sends single notifications to the end of their queue.
  func send(_ queue: SingleSends.Queue, _ group: PreparedNotification.Group) async {
    do throws(CarillonError) {
      var context = CampaignContext()
      context.isSingleSends = true
      let campaign = group.campaign()
      let number = try await engine.begin(campaign, app: entry.id, context: context)
      let run = try begin(campaign, number, listener: queue)
      // Every caller got an outcome, so nothing is sent again.
      await send(queue, run) { run.abandon() }
      // Those that were still in the queue when the app was stopped.
      SingleSends.end(queue, .success(.cancelled))
    } catch { SingleSends.end(queue, .failure(error)) }
    sends.hasEnded(queue)
  }

  /// Sends a queue to its end.
  ///
  /// - Parameters:
  ///   - isKept: it can resume when the app is removed and added again.
  ///   - cancel: ends it as soon as it can.
  func send<Owner>(
    _ queue: NotificationQueue<Owner>, _ run: CampaignRun, isKept: Bool = false, cancel: @escaping @Sendable () -> Void
  ) async {
    let registered = runs.add(RunRegistry.Run(drain: { queue.finish() }, cancel: cancel, isKept: isKept))
    if registered == nil { queue.finish() }
    do throws(AudienceError) {
      try await run.run(queue, chunks: engine.intakeChunks)
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
    } catch { throw CarillonError(.gateway, "The app \"\(entry.id)\" has stopped: \(error.reason).") }
  }
}

extension RunningEngine {
  /// Writes down that a campaign begins. Nil without a journal.
  func begin(_ campaign: Campaign, app: String, context: CampaignContext) async throws(CarillonError) -> UInt64? {
    guard let journal else { return nil }
    let beginning = EngineJournal.Beginning(app: app, campaign: campaign, context: context.bytes)
    return try await describingErrors { try await journal.begin([beginning]).first }
  }
}
