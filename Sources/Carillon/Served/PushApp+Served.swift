internal import PushEngine
internal import PushWire

extension PushApp {
  /// Begins a service's campaign, or resumes it if an earlier process has begun it. It is paused
  /// until ``PushCampaign/resume()``: much may have been decided while it began.
  ///
  /// Its account continues where it was. When it has ended, ``ServedEvents/ended`` has the final
  /// account before the journal forgets the campaign.
  package func serve(_ served: ServedCampaign, _ events: ServedEvents) async throws(CarillonError) -> PushCampaign {
    let runtime = try await core.runtime(of: entry)
    // Before the journal has it: an app that is removed meanwhile keeps the campaign.
    guard runtime.runs.startBeginning() else {
      throw CarillonError(.cancelled, "The app \"\(id)\" was removed from its deployment.")
    }
    do throws(CarillonError) {
      return try await serve(served, events, runtime)
    } catch {
      runtime.runs.endBeginning()
      throw error
    }
  }

  private func serve(
    _ served: ServedCampaign, _ events: ServedEvents, _ runtime: AppRuntime
  ) async throws(CarillonError) -> PushCampaign {
    let unfinished = core.served(served.name)
    var plan: PlannedCampaign
    let list: any OutcomeListener
    if let unfinished, let journal = core.journal {
      plan = try unfinished.plan(through: entry)
      let runs = journal.recoveredRuns(of: unfinished.id)
      list = try events.list(SettledLines(of: unfinished.campaign, recoveredRuns: runs), plan.sent.seed)
    } else {
      plan = try planned(served.notification, "")
      plan.context.served = served.name
      if let seed = served.seed { plan.sent.seed = seed }
      list = try events.list(nil, plan.sent.seed)
    }
    plan.variants = served.variants
    if served.isShared { plan.sent.lease = core.lease }
    if let pace = served.pace { plan.entryLimit = pace.entryLimit }
    let source = try source(served, plan, unfinished?.campaign)
    _ = try unfinished?.take()
    let listener = ServedListener(list: list, goneDevices: entry.goneDevices, events: events)
    if plan.number == nil {
      plan.number = try await runtime.engine.begin(plan.sent, app: id, context: plan.context)
    }
    do { try await events.begun() } catch { throw CarillonError(.journal, "\(error)") }
    return try await begin(plan, source, listener: listener, unaccepted: UnacceptedNotifications(), on: runtime)
  }

  private func source(
    _ served: ServedCampaign, _ plan: PlannedCampaign, _ resumed: JournalledCampaign?
  ) throws(CarillonError) -> CampaignSource {
    let source: CampaignSource
    switch served.audience {
    case .file(let kept, let selection):
      let mark = resumed.flatMap { $0.mark.offset == 0 ? nil : $0.mark }
      source = try plan.source(kept, from: mark, selection: selection)
    case .rows(let kept, let mark, let permit):
      source = try plan.source(kept, from: mark, permit: permit(resumed?.readLine ?? 0))
    case .source(let make):
      let made = make(resumed?.readLine ?? 0)
      source = .served(made.0, feed: made.feed)
    }
    return served.pace.map(source.paced) ?? source
  }

  /// Gives up a service's campaign that an earlier process began and that was not resumed. Those
  /// who were never read are in its account and its list, too, as far as they can be read.
  ///
  /// - Returns: false if the journal has none of this name.
  package func abandon(_ served: ServedCampaign, _ events: ServedEvents) async throws(CarillonError) -> Bool {
    guard let unfinished = core.served(served.name), let journal = core.journal else { return false }
    let campaign = unfinished.campaign
    let runs = journal.recoveredRuns(of: unfinished.id)
    let list = try events.list(SettledLines(of: campaign, recoveredRuns: runs), campaign.seed)
    let listener = ServedListener(list: list, goneDevices: entry.goneDevices, events: events)
    let rest = ServedRest(served.audience, behind: campaign)
    let account = try await rest.settled(.cancelled, listener)
    _ = try unfinished.take()
    journal.abandonCampaign(unfinished.id, listener, rest: account)
    try await describingErrors { try await journal.makeDurable() }
    return true
  }
}

extension Deployment {
  /// Ends in the journal what the service knows to have ended: the process was killed between the
  /// two. The service has their final accounts.
  package func settle(served names: Set<String>) {
    guard let journal = core.journal else { return }
    for state in core.unfinished {
      guard let name = CampaignContext(reading: state.campaign.context).served, names.contains(name),
        core.take(unfinished: state.campaign.number)
      else { continue }
      journal.abandonCampaign(state.campaign.number)
    }
  }

  /// Settles a campaign of which the journal knows nothing: each of its audience is in its account
  /// and its list, as far as it can be read.
  ///
  /// - Parameter isUnknown: It may have been sent. Otherwise it counts as cancelled.
  package func settleUnsent(
    _ served: ServedCampaign, isUnknown: Bool, _ events: ServedEvents
  ) async throws(CarillonError) -> CampaignAccount {
    let list = try events.list(nil, served.seed ?? .random())
    let account = try await ServedRest(served.audience, behind: nil).settled(isUnknown ? .unknown : .cancelled, list)
    return CampaignAccount(account)
  }

  /// Returns when everything that has happened so far is in the journal, and survives the machine.
  package func makeJournalDurable() async throws(CarillonError) {
    guard let journal = core.journal else { return }
    try await describingErrors { try await journal.makeDurable() }
  }

  /// Nothing can begin any more.
  package var hasEnded: Bool { core.isOver }

  /// The campaigns of a service that earlier processes began and that were not resumed.
  package var servedRemainders: [ServedRemainder] {
    unfinishedCampaigns.compactMap { unfinished in
      unfinished.context.served.map { ServedRemainder(app: unfinished.app, name: $0, account: unfinished.account) }
    }
  }
}

extension DeploymentCore {
  fileprivate func served(_ name: String) -> UnfinishedCampaign? {
    let found = unfinished.first { CampaignContext(reading: $0.campaign.context).served == name }
    return found.map { UnfinishedCampaign($0, core: self) }
  }
}
