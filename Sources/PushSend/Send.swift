package import Carillon
internal import Foundation
package import PushEngine
internal import PushTransport
internal import PushWire
internal import Synchronization

/// The campaigns of `carillon send`: checked, then sent through a deployment, to one account.
///
/// ``init(_:at:)`` finds everything that can be wrong beforehand. ``run(_:at:notice:alongside:)``
/// opens the lists, begins the campaigns in the journal and sends. Meanwhile, ``progress`` and
/// ``account`` may be read from any thread, and ``cancel()`` and ``closeConnections()`` called. It
/// prints nothing and catches no signals.
package final class Send: Sendable {
  struct Part: Sendable {
    /// The id of its app, as the account shows it.
    var app: String
    var planned: PlannedCampaign
    var source: CampaignSource
    /// As the user named the file.
    var tokens: String
    /// What lists show instead of a token.
    var channel: String?
    /// If it is resumed, the lines whose rows in the list of outcomes are valid.
    var settledLines: SettledLines?
  }

  private struct State {
    /// In the order of the parts.
    var campaigns: [PushCampaign] = []
    var lists: SendLists?
    var startedAt = ContinuousClock.now
    /// How things stood then.
    var before = AccountSnapshot(apps: [], seconds: 0)
    var fractionBefore = 0.0
  }

  /// Findings that do not stop anything, one sentence each.
  package let warnings: [String]
  let plan: SendPlan
  let parts: [Part]
  /// With the ids that the account shows.
  private let apps: [AppEntry]
  private let state = Mutex(State())

  /// Reads credentials and opens token files. Nothing has been sent when this throws.
  ///
  /// - Parameter unixSeconds: now; expirations count from it, and certificates must be valid at it.
  package init(_ plan: SendPlan, at unixSeconds: UInt32) throws {
    var warnings: [String] = []
    var apps: [String: AppEntry] = [:]
    let registry = ProviderTokenRegistry()
    self.apps = try plan.apps.map { app in
      let credential = try ResolvedCredential.resolve(app, registry: registry, validAt: Int64(unixSeconds))
      var named = app
      if plan.isNamedByTopic, let topic = app.topic ?? credential.certificate?.topics.first { named.id = topic }
      if let certificate = credential.certificate {
        warnings += certificate.warnings(about: app, at: Int64(unixSeconds))
      }
      let entry = AppEntry(named, credential)
      apps[app.id] = entry
      return entry
    }
    parts = try plan.entries.map { entry in
      guard let app = apps[entry.app] else { throw CarillonError(.configuration, "there is no app \"\(entry.app)\"") }
      let planned = entry.planned(through: app, at: unixSeconds)
      warnings += try entry.warnings(planned)
      let source = try entry.source(planned, from: entry.resumed?.mark)
      if !planned.isHTTP2 {
        for column in source.headerColumns where !entry.template.columns.contains(column) {
          warnings.append("\(entry.tokens) has the column \(column), which only HTTP/2 can send; it is ignored.")
        }
      }
      return Part(
        app: app.id, planned: planned, source: source, tokens: entry.tokensName ?? entry.tokens,
        channel: entry.notification.channel, settledLines: entry.resumed?.settledLines)
    }
    (self.plan, self.warnings) = (plan, warnings)
  }

  /// Throws if a token file cannot be read again when the campaign is resumed, such as a pipe.
  package func checkIsResumable() throws(CarillonError) {
    guard let part = parts.first(where: { $0.source.extent(submitted: 0).of == nil }) else { return }
    throw CarillonError(
      .configuration,
      "\(part.tokens) cannot be read again when the campaign is resumed, so a journal cannot be used: save it to a "
        + "regular file first")
  }

  // MARK: What watches and stops it

  /// Takes in nothing more. What is in flight gets its outcome.
  package func cancel() { for campaign in state.withLock({ $0.campaigns }) { campaign.leave() } }

  /// Closes every connection: what is in flight becomes unknown.
  package func closeConnections() { for app in apps { app.engine?.closeConnections() } }

  package var account: AccountSnapshot { snapshot(state.withLock { $0 }) }

  /// Writes what waits for the lists, for a process that exits before the end.
  package func finishLists() { _ = state.withLock { $0.lists }?.finish() }

  package var progress: ProgressSnapshot {
    let state = state.withLock { $0 }
    var progress = progress(state)
    progress.settledBefore = state.before.apps.map(\.account.settled).reduce(0, +)
    progress.fractionBefore = state.fractionBefore
    return progress
  }

  // MARK: Running

  /// Sends everything.
  ///
  /// The journal stays open: it forgets campaigns that have ended when it is closed, so the account
  /// must reach its reader first. ``SendJournal/close(forgetsEnded:)`` is the next step.
  ///
  /// - Parameters:
  ///   - opened: the plan's journal.
  ///   - unixSeconds: now.
  ///   - notice: is called with sentences that a person should read, before anything is sent.
  ///   - body: runs beside the campaigns, and is cancelled when they have ended.
  package func run(
    _ opened: SendJournal?, at unixSeconds: UInt32, notice: (String) -> Void,
    alongside body: @escaping @Sendable (Send) async -> Void
  ) async throws(CarillonError) -> SendEnding {
    do {
      let lists = try SendLists(self, opened, notice)
      if let journal = opened?.journal {
        lists.onFailure { journal.stop(because: $0) }
        journal.beforeCommits { () throws(UnsyncedList) in try lists.sync() }
      }
      let planned = try await begun(opened, at: unixSeconds)
      let deployment = Deployment(apps, journal: opened?.journal)
      var ending = try await withThrowingTaskGroup(of: Void.self) { tasks in
        tasks.addTask { try await deployment.run() }
        defer { deployment.end() }
        return try await send(planned, through: deployment, lists, alongside: body)
      }
      let unlisted = lists.finish()
      try? await opened?.journal.makeDurable()
      // A list that stopped the journal is reported as the reason for that.
      if !(opened?.journal.failure.map(lists.hasReported) ?? false) { ending.listProblems = unlisted }
      return ending
    } catch {
      throw CarillonError(describing: error)
    }
  }

  private func send(
    _ planned: [PlannedCampaign], through deployment: Deployment, _ lists: SendLists,
    alongside body: @escaping @Sendable (Send) async -> Void
  ) async throws -> SendEnding {
    var campaigns: [PushCampaign] = []
    for (part, planned) in zip(parts, planned) {
      let listener = lists.listener(app: part.app, tokens: part.tokens, channel: part.channel)
      campaigns.append(try await deployment.app(part.app).begin(planned, part.source, listener: listener))
    }
    state.withLock { state in
      (state.campaigns, state.lists) = (campaigns, lists)
      state.startedAt = .now
      state.before = snapshot(state)
      state.fractionBefore = progress(state).fraction ?? 0
    }
    let problems = await withDiscardingTaskGroup { [campaigns] tasks in
      tasks.addTask { await body(self) }
      defer { tasks.cancelAll() }
      var problems: [AudienceError] = []
      for campaign in campaigns { if let problem = await campaign.readingProblem() { problems.append(problem) } }
      return problems
    }
    let account = account
    return SendEnding(
      account: account, audienceProblems: problems,
      failures: apps.compactMap { app in app.engine?.failure.map { SendEnding.Failure(app: app.id, reason: $0) } },
      wasInterrupted: campaigns.contains(where: \.isCancelled),
      hasGivenUp: apps.contains { $0.engine?.status.hasGivenUp ?? false }, nothingWasSent: nothingWasSent(account))
  }

  /// Records that the campaigns begin, unless they have before. Returns them with their numbers.
  private func begun(_ opened: SendJournal?, at unixSeconds: UInt32) async throws -> [PlannedCampaign] {
    let planned = parts.map(\.planned)
    guard let journal = opened?.journal, planned.contains(where: { $0.number == nil }) else { return planned }
    var fingerprints: [String: FileFingerprint] = [:]
    func fingerprint(_ file: String) throws -> FileFingerprint {
      if let known = fingerprints[file] { return known }
      let read = try FileFingerprint.read(file)
      fingerprints[file] = read
      return read
    }
    let beginnings = try zip(plan.entries, parts).map { entry, part in
      guard let app = plan.configuration(entry.app) else {
        throw CarillonError(.configuration, "there is no app \"\(entry.app)\"")
      }
      var context = CampaignContext()
      context.tokens = try fingerprint(entry.tokens)
      context.send = CampaignContext.Send(
        app, isNamedByTopic: plan.isNamedByTopic, payloadFile: entry.payloadFile,
        payload: try fingerprint(entry.payloadFile), tokensFile: entry.tokens, outcomes: plan.outcomes,
        gone: plan.gone, begunAt: unixSeconds)
      return EngineJournal.Beginning(app: part.app, campaign: part.planned.sent, context: context.bytes)
    }
    return zip(planned, try await journal.begin(beginnings)).map { planned, number in
      var planned = planned
      planned.number = number
      return planned
    }
  }

  /// No outcome came from a gateway: those of a resumed campaign may be unknown or held.
  private func nothingWasSent(_ account: AccountSnapshot) -> Bool {
    let isResumed = plan.isResumed
    func answered(_ app: AccountSnapshot.App) -> Int {
      let account = app.account
      return account.settled - account.cancelled - account.rejectedAtIntake
        - (isResumed ? account.unknown + account.held : 0)
    }
    return zip(account.apps, state.withLock { $0.before.apps }).allSatisfy { now, then in
      answered(now) == answered(then) && now.account.resent == then.account.resent
    }
  }

  // MARK: How it stands

  private func campaigns(_ state: State) -> [(app: AppEntry, campaigns: [(part: Part, campaign: PushCampaign)])] {
    let all = zip(parts, state.campaigns)
    return apps.map { app in (app, all.filter { $0.0.app == app.id }.map { (part: $0, campaign: $1) }) }
  }

  private func snapshot(_ state: State) -> AccountSnapshot {
    let shown = campaigns(state).map { app, campaigns in
      let ended = plan.ended.filter { $0.app == app.id }.map(\.account)
      let account = (campaigns.map(\.campaign.engineAccount) + ended).reduce(Account(), +)
      var shown = AccountSnapshot.App(id: app.id, account: CampaignAccount(account))
      let unread = campaigns.compactMap { part, campaign in
        campaign.unread.map { UnreadPart(tokens: part.tokens, unread: $0) }
      }
      shown.note(app.engine, unread: unread)
      return shown
    }
    return AccountSnapshot(
      apps: shown, seconds: (ContinuousClock.now - state.startedAt).inSeconds,
      settledBefore: state.before.apps.map(\.account.settled).reduce(0, +))
  }

  private func progress(_ state: State) -> ProgressSnapshot {
    var progress = ProgressSnapshot(
      submitted: 0, settled: 0, rejected: 0, consumedByteCount: 0, totalByteCount: 0,
      elapsed: ContinuousClock.now - state.startedAt)
    for (app, campaigns) in campaigns(state) {
      let account = campaigns.map(\.campaign.engineAccount).reduce(Account(), +)
      progress.submitted += account.submitted
      progress.settled += account.settled
      progress.rejected += account.rejectedTotal
      progress.apps.append(
        AppProgress(id: app.id, settled: account.settled, inFlight: account.inFlight, obstacle: app.engine?.obstacle))
      for (part, campaign) in campaigns {
        let extent = part.source.extent(submitted: campaign.engineAccount.submitted)
        progress.consumedByteCount += extent.read
        progress.totalByteCount = extent.of.flatMap { of in progress.totalByteCount.map { $0 + of } }
      }
    }
    return progress
  }
}

package struct SendEnding: Sendable {
  /// Why an app stopped before its campaigns had ended.
  package struct Failure: Sendable {
    package var app: String
    package var reason: String
  }

  package var account: AccountSnapshot
  /// Token files that could not be read to their end.
  package var audienceProblems: [AudienceError]
  /// Apps that gave their gateway up.
  package var failures: [Failure]
  /// It was cancelled.
  package var wasInterrupted: Bool
  /// An app made no progress for as long as its patience lasts.
  package var hasGivenUp: Bool
  /// No gateway has received anything, as far as this process knows.
  package var nothingWasSent: Bool
  /// Why lists are not complete, one sentence each.
  package var listProblems: [String] = []

  /// Apps failed before anything was sent, so there is nothing to account for. A gateway that
  /// accepted nothing until the patience ended has an account, with its notes.
  package var failedBeforeSending: Bool { nothingWasSent && !failures.isEmpty && !hasGivenUp }
}

extension SendPlan.Entry {
  /// The campaign of the entry: the journal's, with the topic of then, if it is resumed.
  fileprivate func planned(through app: AppEntry, at unixSeconds: UInt32) -> PlannedCampaign {
    guard let resumed else { return PlannedCampaign(notification, template: template, through: app, now: unixSeconds) }
    return PlannedCampaign(resuming: resumed.campaign, payload: notification.json, template: template, through: app)
  }

  /// What is not wrong with the campaign, but may not be meant.
  ///
  /// - Throws: for what is wrong with it.
  fileprivate func warnings(_ planned: PlannedCampaign) throws(CarillonError) -> [String] {
    if !planned.isHTTP2, let name = notification.nameOfHeader {
      throw CarillonError(
        .configuration,
        "A \(name) needs HTTP/2, but the app \(app) uses the binary protocol: set transport: http2")
    }
    let errors = planned.findings.filter { $0.severity == .error }.map(\.sentence)
    guard errors.isEmpty else {
      let what =
        planned.sent.headers.map { "\(payloadFile) cannot be sent as a notification of type \($0.pushType.rawValue)" }
        ?? "The payload \(payloadFile) cannot be sent"
      let more = errors.count - Self.errorCountLimit
      let text = errors.prefix(Self.errorCountLimit).joined(separator: " ")
      throw CarillonError(.payload, "\(what): \(text)\(more > 0 ? " (and \(more) more errors)" : "")")
    }
    return planned.findings.map { "\(payloadFile): \($0.path): \($0.sentence)" }
  }

  /// The most errors of a payload in one message.
  private static var errorCountLimit: Int { 3 }

  /// - Parameter mark: where to continue; nil: from the beginning.
  func source(_ planned: PlannedCampaign, from mark: AudienceMark?) throws(CarillonError) -> CampaignSource {
    guard notification.channel != nil else {
      return try planned.source(file: tokens, from: mark, payload: payloadFile, isReadAgain: true)
    }
    if let column = template.columns.first {
      throw CarillonError(
        .payload,
        "\(payloadFile) has the placeholder {{\(column)}}, but a broadcast to a channel has no token file to fill it "
          + "from")
    }
    return .list(TokenList([TokenBytes(bytes: PushNotification.broadcastToken)].compactMap { $0 }), count: 1)
  }
}

extension PushNotification {
  /// The first header that only HTTP/2 has, by its name.
  fileprivate var nameOfHeader: String? {
    let names = [
      ("topic", topic != nil), ("push type", pushType != nil), ("collapse identifier", collapseID != nil),
      ("channel", channel != nil),
    ]
    return names.first { $0.1 }?.0
  }
}

extension CertificateInspection {
  fileprivate func warnings(about app: AppConfiguration, at now: Int64) -> [String] {
    guard case .certificate(let files) = app.credential.settings else { return [] }
    var warnings: [String] = []
    let days = daysLeft(at: now)
    if days < CredentialFinding.warningDays {
      warnings.append(
        "The certificate \(files.certificate) expires in \(days) day\(days == 1 ? "" : "s"); request a new one.")
    }
    // Over HTTP/2 this is an error, found with the headers.
    if !app.transport.isHTTP2, let topic = app.topic, !topics.isEmpty, !topics.contains(topic) {
      warnings.append(
        "The certificate \(files.certificate) is for \(topics.joined(separator: ", ")), not for "
          + "\(topic) as the configuration says.")
    }
    if app.gateway == nil, !environments.isEmpty,
      !environments.contains(where: { $0.rawValue == app.environment.rawValue })
    {
      let named = environments.map(\.rawValue).sorted().joined(separator: ", ")
      warnings.append("The certificate \(files.certificate) is for \(named), not for \(app.environment.rawValue).")
    }
    return warnings
  }
}
