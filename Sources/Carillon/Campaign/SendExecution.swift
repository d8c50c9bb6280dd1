internal import Foundation
internal import PushEngine
internal import PushTransport

/// Carries out a prepared send: opens the lists, begins the campaigns in the journal, and runs them
/// to the account.
///
/// It prints nothing and catches no signals. Sentences for the user go to `notice`; ``RunningSend``
/// has the progress, and stops the send.
package struct SendExecution: Sendable {
  let plan: SendPlan
  let prepared: PreparedSend
  /// The plan's journal.
  let opened: SendJournal?

  package init(plan: SendPlan, prepared: PreparedSend, opened: SendJournal?) {
    self.plan = plan
    self.prepared = prepared
    self.opened = opened
  }

  /// Sends everything.
  ///
  /// The journal stays open: it forgets campaigns that have ended when it is closed, so the account
  /// must reach its reader first. ``SendJournal/close(forgetsEnded:)`` is the next step.
  ///
  /// - Parameters:
  ///   - unixSeconds: now.
  ///   - notice: is called with sentences that a person should read, before anything is sent.
  ///   - body: runs beside the campaigns, and is cancelled when they have ended.
  package func run(
    at unixSeconds: UInt32, notice: (String) -> Void, alongside body: @escaping @Sendable (RunningSend) async -> Void
  ) async throws(CarillonError) -> SendEnding {
    do {
      return try await send(at: unixSeconds, notice: notice, alongside: body)
    } catch {
      throw CarillonError(describing: error)
    }
  }

  private func send(
    at unixSeconds: UInt32, notice: (String) -> Void, alongside body: @escaping @Sendable (RunningSend) async -> Void
  ) async throws -> SendEnding {
    let lists = try openLists(notice)
    if let journal = opened?.journal {
      lists.onFailure { journal.stop(because: $0) }
      journal.beforeCommits { () throws(UnsyncedList) in try lists.sync() }
    }
    let campaigns = try await begin(at: unixSeconds)
    let host = EngineHost(
      prepared.apps.map { $0.credential.plan($0.configuration) }, threads: ProcessInfo.processInfo.activeProcessorCount,
      seed: UInt64.random(in: 0 ... .max), journal: opened?.journal)
    var ending = try await host.serve {
      let running = try RunningSend(plan: plan, prepared: prepared, campaigns: campaigns, host: host, lists: lists)
      return await running.run(alongside: body)
    }
    let unlisted = lists.finish()
    try? await opened?.journal.makeDurable()
    // A list that stopped the journal is reported as the reason for that.
    if !(opened?.journal.failure.map(lists.hasReported) ?? false) { ending.listProblems = unlisted }
    return ending
  }

  private var isResumed: Bool { plan.entries.contains { $0.resumed != nil } }

  // MARK: Lists

  private func openLists(_ notice: (String) -> Void) throws -> SendLists {
    var devices: [GoneDevice] = []
    let outcomes = try openOutcomes(&devices, notice)
    var gone: GoneFile?
    if let path = plan.gone { gone = try GoneFile(path: path) }
    if isResumed, let gone, let opened {
      let restoration = GoneRestoration(begunAt: UInt64(plan.begunAt ?? 0))
      let sentence = try restoration.restore(gone, listSources, listed: devices, directory: opened.directory)
      if let sentence { notice(sentence) }
    }
    return SendLists(outcomes: outcomes, gone: gone)
  }

  /// - Parameter devices: gets those that the list of a resumed campaign calls gone.
  private func openOutcomes(
    _ devices: inout [GoneDevice], _ notice: (String) -> Void
  ) throws -> OutcomesFile? {
    guard let path = plan.outcomes else { return nil }
    let columns = OutcomesColumns(
      namesSource: prepared.campaigns.count + plan.ended.count > 1, namesTime: prepared.hasHTTP2)
    guard isResumed else { return try OutcomesFile(path: path, columns: columns) }
    let sources = listSources
    let history = try OutcomesHistory(
      path: path, columns: columns,
      sources: sources.map { OutcomesHistory.Source(app: $0.app, tokens: $0.tokens, settled: $0.settled) })
    let file = try OutcomesFile(replacing: path, columns: columns, rows: history.rows)
    var restoration = OutcomesRestoration(file: file, path: path, directory: opened?.directory ?? "")
    devices = history.listed.flatMap(\.gone)
    for (source, listed) in zip(sources, history.listed) {
      try restoration.restore(source, listed: listed) { try wholeAudience(of: source) }
    }
    if let sentence = restoration.sentence {
      notice(sentence)
      // The journal may drop the records that these rows come from at any time, so they are made
      // durable now. A failure is reported when the list is finished.
      _ = file.finish()
      try? file.sync()
    }
    return file
  }

  /// Every campaign that the list is about, as the journal knew it.
  private var listSources: [OutcomesRestoration.Source] {
    func source(
      _ app: String, _ tokens: String, _ campaign: JournalledCampaign, _ settled: SettledLines?
    ) -> OutcomesRestoration.Source {
      let lost = opened?.report.campaigns.first { $0.campaign.number == campaign.number }?.lost ?? 0
      return OutcomesRestoration.Source(
        app: app, tokens: tokens, number: campaign.number, account: campaign.account, lost: lost,
        readLine: campaign.readLine, settled: settled)
    }
    return zip(plan.entries, prepared.campaigns).compactMap { entry, part in
      entry.resumed.map { source(part.app, part.tokens, $0.campaign, part.settledLines) }
    } + plan.ended.map { source($0.app, $0.tokens, $0.campaign, nil) }
  }

  /// Reads the token file of a resumed campaign from its beginning.
  private func wholeAudience(
    of source: OutcomesRestoration.Source
  ) throws -> (any AudienceSource, AudienceChunk)? {
    guard let index = prepared.campaigns.firstIndex(where: { $0.number == source.number }) else { return nil }
    let part = prepared.campaigns[index]
    guard let app = prepared.apps.first(where: { $0.configuration.id == part.app }) else { return nil }
    let audience = try plan.wholeAudience(plan.entries[index], part, app)
    return (audience, AudienceChunk(payloadCapacity: part.payloadCapacity))
  }

  // MARK: The journal

  /// Records that the campaigns begin, unless they have before. Returns them with their numbers.
  private func begin(at unixSeconds: UInt32) async throws -> [PreparedSend.CampaignPart] {
    guard let journal = opened?.journal, prepared.campaigns.contains(where: { $0.number == nil }) else {
      return prepared.campaigns
    }
    let beginnings = try beginnings(at: unixSeconds)
    do throws(JournalProblem) {
      let numbers = try await journal.begin(beginnings)
      return zip(prepared.campaigns, numbers).map { part, number in
        var part = part
        part.number = number
        return part
      }
    } catch {
      throw CarillonError(.journal, "\(error)")
    }
  }

  private func beginnings(at unixSeconds: UInt32) throws -> [EngineJournal.Beginning] {
    var fingerprints: [String: FileFingerprint] = [:]
    func fingerprint(_ file: String) throws -> FileFingerprint {
      if let known = fingerprints[file] { return known }
      let read = try FileFingerprint.read(file)
      fingerprints[file] = read
      return read
    }
    var beginnings: [EngineJournal.Beginning] = []
    for (entry, part) in zip(plan.entries, prepared.campaigns) {
      guard let app = plan.configuration(entry.app) else {
        throw CarillonError(.configuration, "there is no app \"\(entry.app)\"")
      }
      let context = CampaignContext(
        settings: StoredApp(app.withAbsolutePaths), isNamedByTopic: plan.isNamedByTopic,
        payloadFile: CampaignContext.absolute(entry.payloadFile), payload: try fingerprint(entry.payloadFile),
        tokensFile: CampaignContext.absolute(entry.tokens), tokens: try fingerprint(entry.tokens),
        tokensName: entry.tokens, outcomes: plan.outcomes.map(CampaignContext.absolute),
        gone: plan.gone.map(CampaignContext.absolute), begunAt: unixSeconds)
      beginnings.append(
        EngineJournal.Beginning(app: part.app, campaign: part.sent, context: try context.encoded))
    }
    return beginnings
  }
}
