internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushServer
internal import PushTransport
internal import PushWire
internal import Synchronization

/// Runs what `carillon send` has prepared, and shows how it goes.
struct SendRun {
  let plan: SendPlan
  let prepared: PreparedSend
  /// The plan's journal.
  let opened: SendJournal?

  /// Sends everything and prints the account.
  ///
  /// - Parameter unixSeconds: now.
  /// - Throws: the exit status when it is not 0, or why nothing could be sent.
  func run(at unixSeconds: UInt32) async throws {
    let lists = try openLists()
    if let journal = opened?.journal {
      lists.onFailure { journal.stop(because: $0) }
      journal.beforeCommits { () throws(UnsyncedList) in try lists.sync() }
    }
    let campaigns = try await begin(at: unixSeconds)
    let deployment = EngineHost(
      prepared.apps.map { $0.access.plan($0.settings) }, threads: ProcessInfo.processInfo.activeProcessorCount, seed: UInt64.random(in: 0 ... .max),
      journal: opened?.journal)
    let started = ContinuousClock.now
    let ending = try await deployment.serve { try await send(campaigns, through: deployment, lists: lists, started: started) }
    // A journal that is closed takes the accounts of what has ended for given. So they are given first: whoever is killed in between gives them again.
    let unlisted = lists.finish()
    try? await opened?.journal.makeDurable()
    let unwritten = showsAccount(ending) ? show(ending.account) : nil
    let unjournalled = unwritten == nil ? await closeJournal() : nil
    // A list that stopped the journal is told of there.
    let isToldOf = opened?.journal.failure.map(SendLists.speaksOfThem) ?? false
    let problems = (isToldOf ? [] : unlisted) + [unwritten, ending.failures.isEmpty ? unjournalled : nil].compactMap { $0 }
    try finish(ending, incomplete: problems, isShown: unwritten == nil)
    // All that was taken in may be accepted, but there was more.
    if ending.wasInterrupted { throw ExitStatus.findings }
  }

  // MARK: The journal

  private var isResumed: Bool { plan.entries.contains { $0.resumed != nil } }

  private func openLists() throws -> SendLists {
    var devices: [GoneDevice] = []
    let outcomes = try openOutcomes(&devices)
    let gone = try plan.gone.map(GoneFile.init)
    if isResumed, let gone, let opened {
      let restoration = GoneRestoration(begunAt: UInt64(plan.begunAt ?? 0))
      let sentence = try restoration.restore(gone, listSources, listed: devices, directory: opened.directory)
      if let sentence { StandardStream.error.writeLine("carillon: \(sentence.asSentence)") }
    }
    return SendLists(outcomes: outcomes, gone: gone)
  }

  /// - Parameter devices: gets those that the list of a resumed campaign calls gone.
  private func openOutcomes(_ devices: inout [GoneDevice]) throws -> OutcomesFile? {
    guard let path = plan.outcomes else { return nil }
    let columns = OutcomesColumns(namesSource: prepared.campaigns.count + plan.ended.count > 1, namesTime: prepared.hasHTTP2)
    guard isResumed else { return try OutcomesFile(path: path, columns: columns) }
    let sources = listSources
    let history = try OutcomesHistory(
      path: path, columns: columns, sources: sources.map { OutcomesHistory.Source(app: $0.app, tokens: $0.tokens, settled: $0.settled) })
    let file = try OutcomesFile(replacing: path, columns: columns, rows: history.rows)
    var restoration = OutcomesRestoration(file: file, path: path, directory: opened?.directory ?? "")
    devices = history.listed.flatMap(\.gone)
    for (source, listed) in zip(sources, history.listed) {
      try restoration.restore(source, listed: listed) { try wholeAudience(of: source) }
    }
    if let sentence = restoration.sentence {
      StandardStream.error.writeLine("carillon: \(sentence.asSentence)")
      // The journal may let go of what they were made of at any time. A failure is told of when the list is finished.
      _ = file.finish()
      try? file.sync()
    }
    return file
  }

  /// Every campaign that the list is about, as the journal knew it.
  private var listSources: [OutcomesRestoration.Source] {
    func source(_ app: String, _ tokens: String, _ campaign: JournalledCampaign, _ settled: SettledLines?) -> OutcomesRestoration.Source {
      let lost = opened?.report.campaigns.first { $0.campaign.number == campaign.number }?.lost ?? 0
      return OutcomesRestoration.Source(
        app: app, tokens: tokens, number: campaign.number, account: campaign.account, lost: lost, readLine: campaign.readLine, settled: settled)
    }
    return zip(plan.entries, prepared.campaigns).compactMap { entry, part in
      entry.resumed.map { source(part.app, part.tokens, $0.campaign, part.settledLines) }
    } + plan.ended.map { source($0.app, $0.tokens, $0.campaign, nil) }
  }

  /// Reads the token file of a resumed campaign from its beginning.
  private func wholeAudience(of source: OutcomesRestoration.Source) throws -> (any AudienceSource, AudienceChunk)? {
    guard let index = prepared.campaigns.firstIndex(where: { $0.number == source.number }) else { return nil }
    let part = prepared.campaigns[index]
    guard let app = prepared.apps.first(where: { $0.settings.id == part.app }) else { return nil }
    return (try plan.wholeAudience(plan.entries[index], part, app), AudienceChunk(payloadCapacity: part.payloadCapacity))
  }

  /// Writes down that the campaigns begin, unless they have before. Returns them with their numbers.
  private func begin(at unixSeconds: UInt32) async throws -> [PreparedSend.CampaignPart] {
    guard let journal = opened?.journal, prepared.campaigns.contains(where: { $0.number == nil }) else { return prepared.campaigns }
    var fingerprints: [String: FileFingerprint] = [:]
    func fingerprint(_ file: String) throws -> FileFingerprint {
      if let known = fingerprints[file] { return known }
      let read = try FileFingerprint.read(file)
      fingerprints[file] = read
      return read
    }
    let beginnings = try zip(plan.entries, prepared.campaigns).map { entry, part in
      guard let settings = plan.settings(entry.app) else { throw CommandFailure.usage("there is no app \"\(entry.app)\"") }
      let context = CampaignContext(
        settings: settings.withAbsolutePaths, isNamedByTopic: plan.isNamedByTopic, payloadFile: CampaignContext.absolute(entry.payloadFile),
        payload: try fingerprint(entry.payloadFile), tokensFile: CampaignContext.absolute(entry.tokens), tokens: try fingerprint(entry.tokens),
        tokensName: entry.tokens, outcomes: plan.outcomes.map(CampaignContext.absolute), gone: plan.gone.map(CampaignContext.absolute), begunAt: unixSeconds)
      return EngineJournal.Beginning(
        app: part.app, campaign: part.sent, context: try context.encoded)
    }
    do throws(JournalProblem) {
      let numbers = try await journal.begin(beginnings)
      return zip(prepared.campaigns, numbers).map { part, number in
        var part = part
        part.number = number
        return part
      }
    } catch {
      throw CommandFailure.couldNotRun("\(error)")
    }
  }

  /// Returns what is wrong, in a sentence.
  private func closeJournal() async -> String? {
    do throws(JournalProblem) {
      try await opened?.journal.close()
      return nil
    } catch {
      return "\(error)"
    }
  }

  private struct Ending: Sendable {
    var account: AccountSnapshot
    /// Token files that could not be read to their end.
    var campaigns: [AudienceError] = []
    /// Apps that gave their gateway up: id and reason.
    var failures: [(app: String, reason: String)] = []
    var wasInterrupted = false
    /// An app made no progress until its patience was over.
    var hasGivenUp = false
    /// No gateway has heard of anything, as far as this process can tell.
    var nothingWasSent: Bool
  }

  // MARK: Sending

  private struct Part: Sendable {
    var campaign: PreparedSend.CampaignPart
    var run: CampaignRun
  }

  private func send(
    _ campaigns: [PreparedSend.CampaignPart], through deployment: EngineHost, lists: SendLists, started: ContinuousClock.Instant
  ) async throws -> Ending {
    let parts = try campaigns.map { campaign in
      guard let app = deployment.apps[campaign.app] else { throw CommandFailure.usage("there is no app \"\(campaign.app)\"") }
      let listener = lists.listener(app: campaign.app, tokens: campaign.tokens, channel: campaign.audience.channelIdentifier)
      return Part(campaign: campaign, run: try CampaignRun(campaign.sent, through: app, journalled: campaign.number, listener: listener))
    }
    let before = snapshot(of: parts, through: deployment, since: started)
    let ending = OnlyOnce()
    // When connections do not close in time, or nobody wants to wait for that.
    let stopHere: @Sendable () -> Void = {
      guard ending.begin() else { return }
      let (account, inFlightCount) = snapshot(of: parts, through: deployment, since: started, before: before).asIfOver
      let isShown = show(account) == nil
      _ = lists.finish()
      if inFlightCount > 0 {
        StandardStream.error.writeLine(
          "carillon: stopped at once: \(inFlightCount) notifications were still in flight; they count as unknown, and are not listed")
      }
      if let opened { StandardStream.error.writeLine("carillon: what was not sent stays in the journal; go on by \(opened.howToGoOn)") }
      Foundation.exit((isShown ? ExitStatus.findings : .couldNotRun).rawValue)
    }
    let watch = SignalWatch { count in
      // The terminal has echoed ^C into the progress line.
      if StandardStream.error.isTerminal { _ = StandardStream.error.write(Array("\r\u{1B}[K".utf8)) }
      switch count {
      case 1:
        StandardStream.error.writeLine("carillon: stopping: what is under way is still accounted for; interrupt again to stop at once")
        for part in parts { part.run.cancel() }
      case 2:
        StandardStream.error.writeLine("carillon: closing every connection: what is in flight becomes unknown")
        for app in deployment.apps.values { app.closeConnections() }
        SignalWatch.after(Self.closingTime, stopHere)
      default:
        stopHere()
      }
    }
    defer { watch.stop() }
    let problems = await withTaskGroup(of: AudienceError?.self) { tasks in
      let sentApps = prepared.apps.compactMap { part in
        deployment.apps[part.settings.id].map { app in
          SendProgress.SentApp(id: part.settings.id, app: app, ledgers: parts.filter { $0.campaign.app == part.settings.id }.map(\.run.ledger))
        }
      }
      let progress = SendProgress(parts.map(\.campaign.audience), apps: sentApps, started: started)
      tasks.addTask {
        await progress.show()
        return nil
      }
      for part in parts {
        tasks.addTask {
          do throws(AudienceError) {
            try await part.run.run(part.campaign.audience, chunk: AudienceChunk(payloadCapacity: part.campaign.payloadCapacity))
            return nil
          } catch {
            return error
          }
        }
      }
      var problems: [AudienceError] = []
      for _ in parts {
        if let problem = await tasks.next() ?? nil { problems.append(problem) }
      }
      tasks.cancelAll()
      return problems
    }
    // The process is about to exit.
    guard ending.begin() else { return try await Self.never() }
    let failures = prepared.apps.compactMap { part in deployment.apps[part.settings.id]?.failure.map { (app: part.settings.id, reason: $0) } }
    let account = snapshot(of: parts, through: deployment, since: started, before: before)
    return Ending(
      account: account, campaigns: problems, failures: failures, wasInterrupted: parts.contains { $0.run.ledger.isCancelled },
      hasGivenUp: deployment.apps.values.contains { $0.status.hasGivenUp },
      nothingWasSent: nothingWasSent(account, before: before))
  }

  /// How long a second signal waits for connections to close.
  private static let closingTime = Duration.seconds(2)

  private static func never() async throws -> Ending {
    while true { try await Task.sleep(for: .seconds(3600)) }
  }

  /// No outcome came from a gateway. What an earlier process may have sent is unknown, or held, without any gateway's doing.
  private func nothingWasSent(_ account: AccountSnapshot, before: AccountSnapshot) -> Bool {
    func heard(_ app: AccountSnapshot.App) -> Int {
      app.settled - app.cancelled - app.rejectedAtIntake - (isResumed ? app.unknown + app.held : 0)
    }
    return zip(account.apps, before.apps).allSatisfy { now, then in heard(now) == heard(then) && now.resent == then.resent }
  }

  /// - Parameter before: how things stood at the beginning.
  private func snapshot(
    of parts: [Part], through deployment: EngineHost, since started: ContinuousClock.Instant, before: AccountSnapshot? = nil
  ) -> AccountSnapshot {
    let apps = prepared.apps.map { app in
      let ended = plan.ended.filter { $0.app == app.settings.id }.map(\.account)
      let parts = parts.filter { $0.campaign.app == app.settings.id }
      let account = (parts.map(\.run.ledger.account) + ended).reduce(Account(), +)
      var shown = AccountSnapshot.App(id: app.settings.id, account: account)
      let unread = parts.compactMap { part in
        part.campaign.audience.unread(part.run.ledger.unread).map { UnreadPart(tokens: part.campaign.tokens, unread: $0) }
      }
      shown.note(deployment.apps[app.settings.id], unread: unread)
      return shown
    }
    let settledBefore = before?.apps.map(\.settled).reduce(0, +) ?? 0
    return AccountSnapshot(apps: apps, seconds: (ContinuousClock.now - started).inSeconds, settledBefore: settledBefore)
  }

  // MARK: Ending

  /// Returns one sentence if the account could not be written: whoever reads it must not take nothing for success.
  @discardableResult
  private func show(_ account: AccountSnapshot) -> String? {
    account.show(json: plan.json)
  }

  /// Where nothing got as far as a gateway, the reason is all there is to say; a machine still gets its object. A gateway that took
  /// nothing until patience was over is worth an account, with its notes.
  private func showsAccount(_ ending: Ending) -> Bool { plan.json || !ending.nothingWasSent || ending.failures.isEmpty || ending.hasGivenUp }

  /// - Parameter incomplete: why something that was to be written is not all there.
  /// - Parameter isShown: false: the account did not reach standard output.
  private func finish(_ ending: Ending, incomplete: [String], isShown: Bool) throws {
    let (campaigns, failures, account) = (ending.campaigns, ending.failures, ending.account)
    // What stopped the journal stopped every app: one sentence for all of them.
    let stopped = failures.isEmpty ? nil : opened?.journal.failure
    let others = failures.filter { $0.reason != stopped }.map { "\($0.app) stopped: \($0.reason)" }
    for problem in campaigns.map(\.description) + others + incomplete {
      StandardStream.error.writeLine("carillon: \(problem.asSentence)")
    }
    if let opened {
      if let stopped {
        StandardStream.error.writeLine("carillon: \(stopped); nothing more was taken in, and when that is mended, \(opened.howToGoOn) goes on")
      } else if ending.wasInterrupted || !failures.isEmpty || !campaigns.isEmpty {
        StandardStream.error.writeLine("carillon: what was not sent stays in the journal; go on by \(opened.howToGoOn)")
      }
    }
    if !isShown || !failures.isEmpty && ending.nothingWasSent && !ending.hasGivenUp { throw ExitStatus.couldNotRun }
    if !campaigns.isEmpty, account.apps.allSatisfy({ $0.submitted == 0 }) { throw ExitStatus.usage }
    if !failures.isEmpty || !campaigns.isEmpty || !incomplete.isEmpty { throw ExitStatus.findings }
    if account.exitStatus != .success { throw account.exitStatus }
  }
}

extension AccountSnapshot.App {
  init(id: String, account: Account) {
    self.init(id: id)
    submitted = account.submitted
    confirmed = account.confirmed
    quiet = account.quiet
    rejected = Dictionary(account.rejected.map { ("\($0.key)", $0.value) }, uniquingKeysWith: +)
    suppressed = account.suppressed
    expired = account.expired
    held = account.held
    cancelled = account.cancelled
    unknown = account.unknown
    resent = account.resent
    possibleDuplicates = account.possibleDuplicates
    possibleCopies = account.possibleCopies
  }

  /// Lines that never became a notification.
  fileprivate var rejectedAtIntake: Int {
    Rejection.atIntake.map { rejected["\($0)"] ?? 0 }.reduce(0, +)
  }
}
