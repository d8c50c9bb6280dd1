package import PushEngine
internal import PushWire

/// The handle of a send while its campaigns run: progress, account, and how to stop it. Every call
/// may come from any thread. ``SendExecution`` makes it.
package struct RunningSend: Sendable {
  private struct Part: Sendable {
    var campaign: PreparedSend.CampaignPart
    var run: CampaignRun
  }

  private let plan: SendPlan
  private let prepared: PreparedSend
  private let host: EngineHost
  private let lists: SendLists
  private let parts: [Part]
  private let started = ContinuousClock.now
  /// How things stood at the beginning.
  private let before: AccountSnapshot
  private let fractionBefore: Double

  init(
    plan: SendPlan, prepared: PreparedSend, campaigns: [PreparedSend.CampaignPart], host: EngineHost, lists: SendLists
  ) throws(CarillonError) {
    self.plan = plan
    self.prepared = prepared
    self.host = host
    self.lists = lists
    var parts: [Part] = []
    for campaign in campaigns {
      guard let app = host.apps[campaign.app] else {
        throw CarillonError(.configuration, "there is no app \"\(campaign.app)\"")
      }
      let listener = lists.listener(
        app: campaign.app, tokens: campaign.tokens, channel: campaign.audience.channelIdentifier)
      let run = try describingErrors {
        try CampaignRun(campaign.sent, through: app, journalled: campaign.number, listener: listener)
      }
      parts.append(Part(campaign: campaign, run: run))
    }
    self.parts = parts
    let first = Self.snapshot(plan, prepared, parts, host, since: started, settledBefore: 0)
    before = first
    let audiences = parts.map(\.campaign.audience)
    fractionBefore = Self.progress(audiences, prepared, parts, host, elapsed: .zero).fraction ?? 0
  }

  // MARK: What watches and stops it

  /// Takes in nothing more. What is in flight gets its outcome.
  package func cancel() { for part in parts { part.run.cancel() } }

  /// Closes every connection: what is in flight becomes unknown.
  package func closeConnections() { for app in host.apps.values { app.closeConnections() } }

  /// The account as it stands.
  package var account: AccountSnapshot {
    let settledBefore = before.apps.map(\.account.settled).reduce(0, +)
    return Self.snapshot(plan, prepared, parts, host, since: started, settledBefore: settledBefore)
  }

  /// Writes what waits for the lists, for a process that exits before the end.
  package func finishLists() { _ = lists.finish() }

  /// How far it is.
  package var progress: ProgressSnapshot {
    var progress = Self.progress(
      parts.map(\.campaign.audience), prepared, parts, host, elapsed: ContinuousClock.now - started)
    progress.settledBefore = before.apps.map(\.account.settled).reduce(0, +)
    progress.fractionBefore = fractionBefore
    return progress
  }

  // MARK: Running

  /// Runs every campaign to its end, and `body` meanwhile.
  func run(alongside body: @escaping @Sendable (RunningSend) async -> Void) async -> SendEnding {
    enum Step: Sendable {
      case ended(AudienceError?)
      case bodyReturned
    }
    let problems = await withTaskGroup(of: Step.self) { tasks in
      tasks.addTask {
        await body(self)
        return .bodyReturned
      }
      for part in parts {
        tasks.addTask {
          do throws(AudienceError) {
            let chunk = AudienceChunk(payloadCapacity: part.campaign.payloadCapacity)
            try await part.run.run(part.campaign.audience, chunk: chunk)
            return .ended(nil)
          } catch {
            return .ended(error)
          }
        }
      }
      var problems: [AudienceError] = []
      var runningCount = parts.count
      while runningCount > 0, let step = await tasks.next() {
        guard case .ended(let problem) = step else { continue }
        runningCount -= 1
        if let problem { problems.append(problem) }
      }
      tasks.cancelAll()
      return problems
    }
    let account = account
    let failures = prepared.apps.compactMap { part in
      host.apps[part.configuration.id]?.failure.map { SendEnding.Failure(app: part.configuration.id, reason: $0) }
    }
    return SendEnding(
      account: account, audienceProblems: problems, failures: failures,
      wasInterrupted: parts.contains { $0.run.ledger.isCancelled },
      hasGivenUp: host.apps.values.contains { $0.status.hasGivenUp }, nothingWasSent: nothingWasSent(account))
  }

  /// No outcome came from a gateway. Outcomes of a resumed campaign may be unknown, or held,
  /// without a gateway.
  private func nothingWasSent(_ account: AccountSnapshot) -> Bool {
    let isResumed = plan.entries.contains { $0.resumed != nil }
    func heard(_ app: AccountSnapshot.App) -> Int {
      let account = app.account
      return account.settled - account.cancelled - account.rejectedAtIntake
        - (isResumed ? account.unknown + account.held : 0)
    }
    return zip(account.apps, before.apps).allSatisfy { now, then in
      heard(now) == heard(then) && now.account.resent == then.account.resent
    }
  }

  // MARK: How it stands

  private static func snapshot(
    _ plan: SendPlan, _ prepared: PreparedSend, _ parts: [Part], _ host: EngineHost,
    since started: ContinuousClock.Instant, settledBefore: Int
  ) -> AccountSnapshot {
    let apps = prepared.apps.map { app in
      let ended = plan.ended.filter { $0.app == app.configuration.id }.map(\.account)
      let parts = parts.filter { $0.campaign.app == app.configuration.id }
      let account = (parts.map(\.run.ledger.account) + ended).reduce(Account(), +)
      var shown = AccountSnapshot.App(id: app.configuration.id, account: CampaignAccount(account))
      let unread = parts.compactMap { part in
        part.campaign.audience.unread(part.run.ledger.unread).map {
          UnreadPart(tokens: part.campaign.tokens, unread: $0)
        }
      }
      shown.note(host.apps[app.configuration.id], unread: unread)
      return shown
    }
    let seconds = (ContinuousClock.now - started).inSeconds
    return AccountSnapshot(apps: apps, seconds: seconds, settledBefore: settledBefore)
  }

  private static func progress(
    _ audiences: [SendAudience], _ prepared: PreparedSend, _ parts: [Part], _ host: EngineHost, elapsed: Duration
  ) -> ProgressSnapshot {
    let accounts = prepared.apps.map { app in
      parts.filter { $0.campaign.app == app.configuration.id }.map(\.run.ledger.account).reduce(Account(), +)
    }
    let account = accounts.reduce(Account(), +)
    let sizes = audiences.map(\.byteCount)
    return ProgressSnapshot(
      submitted: account.submitted, settled: account.settled, rejected: account.rejectedTotal,
      consumedByteCount: audiences.map(\.consumedByteCount).reduce(0, +),
      totalByteCount: sizes.contains(nil) ? nil : sizes.compactMap { $0 }.reduce(0, +), elapsed: elapsed,
      apps: zip(prepared.apps, accounts).map { app, account in
        AppProgress(
          id: app.configuration.id, settled: account.settled, inFlight: account.inFlight,
          obstacle: host.apps[app.configuration.id]?.obstacle)
      })
  }
}

/// How a send has ended.
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
