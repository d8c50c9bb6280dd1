package import Carillon
package import PushEngine
internal import PushWire

/// The journal of a send, opened.
package struct SendJournal: Sendable {
  package let journal: EngineJournal
  package let directory: String
  /// What was found in it.
  package let report: JournalReport
  /// The setting that it was opened with.
  package let sync: JournalConfiguration.Sync

  /// Opens a journal, or makes it.
  ///
  /// - Parameter skipsDamage: skips damage, and counts what is lost there. False: it is an error.
  package static func open(
    _ settings: JournalConfiguration, directory: String, skipsDamage: Bool
  ) throws(JournalProblem) -> SendJournal {
    var options = EngineJournalOptions()
    options.skipsDamage = skipsDamage
    options.sync = settings.engineSync
    let (journal, report) = try EngineJournal.open(directory: directory, options: options)
    return SendJournal(journal: journal, directory: directory, report: report, sync: settings.sync)
  }

  /// What is wrong with the journal although it could be opened, in sentences.
  package var findings: [String] {
    var findings = [report.tornTailNotice].compactMap { $0 } + report.damage.map { "damaged: \($0)" }
    if report.strayCount > 0 { findings.append(report.strayNotice) }
    if !report.damage.isEmpty {
      let lost = report.campaigns.map(\.lost).reduce(0, +)
      findings.append(
        "\(report.lostRecordCount) records are known to be lost, and with them the fate of \(lost) notifications, "
          + "which count as unknown")
    }
    return findings
  }

  /// Throws if an earlier campaign must be resumed first.
  package func checkIsFinished() throws(CarillonError) {
    guard let state = report.unfinished.first else { return }
    let campaign = state.campaign
    throw CarillonError(
      .journalContent,
      "The journal \(directory) holds a campaign of \(campaign.app) that has not ended "
        + "(\(campaign.account.settled) of \(campaign.account.submitted) notifications settled)")
  }

  /// What the journal keeps of a campaign of `carillon send`, with its token file's fingerprint.
  func context(
    of campaign: JournalledCampaign
  ) throws(CarillonError) -> (send: CampaignContext.Send, tokens: FileFingerprint) {
    let context = CampaignContext(reading: campaign.context)
    guard let send = context.send, let tokens = context.tokens else {
      throw CarillonError(
        .journal,
        "The journal \(directory) holds a campaign that another version of carillon began: resume it with that "
          + "version.")
    }
    return (send, tokens)
  }

  /// What the lists of a campaign may lack.
  func source(
    _ campaign: JournalledCampaign, _ app: String, _ tokens: String, _ settled: SettledLines?
  ) -> OutcomesRestoration.Source {
    let lost = report.campaigns.first { $0.campaign.number == campaign.number }?.lost ?? 0
    return OutcomesRestoration.Source(
      app: app, tokens: tokens, number: campaign.number, account: campaign.account, lost: lost,
      readLine: campaign.readLine, settled: settled, file: try? tokenFile(of: campaign))
  }

  /// The token file of a campaign of `carillon send`.
  func tokenFile(of campaign: JournalledCampaign) throws(CarillonError) -> CampaignTokenFile {
    let (send, tokens) = try context(of: campaign)
    return CampaignTokenFile(path: send.tokensFile, fingerprint: tokens)
  }

  /// Reads the tokens of what earlier processes left of a campaign, as far as they lie in its token
  /// file only.
  ///
  /// - Parameter isCompared: the file is known to be what it was.
  /// - Throws: if it is not, or cannot be read.
  func readTokens(of campaign: JournalledCampaign, isCompared: Bool) throws(CarillonError) {
    guard journal.lacksTokens(of: campaign.number) else { return }
    let file = try tokenFile(of: campaign).open(isCompared: isCompared)
    try describingErrors { try journal.readTokens(of: campaign.number, file.tokens) }
  }

  // MARK: Campaigns that have ended

  /// The campaigns of the last account, when none is unfinished.
  ///
  /// - Throws: an error if no campaign had begun: the next attempt then gets the same error.
  package func lastEnded() throws(CarillonError) -> [JournalledCampaign] {
    let last = report.campaigns.map(\.campaign.group).max()
    let ended = report.campaigns.map(\.campaign).filter { $0.group == last }
    guard report.isClosed || !ended.isEmpty && !report.recordsAreClosed else {
      throw CarillonError(
        .journalContent,
        "The journal \(directory) holds nothing to resume: the last process that used it ended before its campaign "
          + "began, and sent nothing")
    }
    return ended
  }

  /// Completes the lists of campaigns that have ended. Returns sentences for the user.
  /// A list that cannot be completed does not stop the account.
  package func completeLists(of ended: [JournalledCampaign]) -> [String] {
    do { return try EndedLists(self, ended).complete() } catch { return [CarillonError(describing: error).message] }
  }

  /// The account of campaigns that have ended.
  package func account(of ended: [JournalledCampaign]) -> AccountSnapshot {
    let accounts = Dictionary(grouping: ended, by: \.app).map { id, campaigns in
      AccountSnapshot.App(id: id, account: CampaignAccount(campaigns.map(\.account).reduce(Account(), +)))
    }
    return AccountSnapshot(apps: accounts.sorted { $0.id < $1.id }, seconds: 0)
  }

  /// Closes the journal.
  ///
  /// - Parameter forgetsEnded: false: keeps the campaigns that have ended until another one has, so
  ///   that their account can be asked for again.
  package func close(forgetsEnded: Bool = true) async throws(CarillonError) {
    do throws(JournalProblem) { try await journal.close(forgetsEnded: forgetsEnded) } catch {
      throw CarillonError(.journal, "\(error)")
    }
  }

  // MARK: Giving up

  /// Cancels what the unfinished campaigns have not sent, and completes their list of outcomes.
  ///
  /// - Returns: the campaigns, with their final accounts, and why the list is not complete, if so.
  package func abandon() async throws(CarillonError) -> (ended: [JournalledCampaign], listProblem: String?) {
    let groups = Set(report.unfinished.map(\.campaign.group))
    let lists = AbandonedLists(self, report.campaigns.map(\.campaign).filter { groups.contains($0.group) })
    // A list that cannot be synced is reported at the end, and stops nothing.
    journal.beforeCommits { try? lists.sync() }
    journal.abandonCampaigns(lists.listener)
    // Their accounts are whole when everything has found its place in the journal.
    do throws(JournalProblem) { try await journal.makeDurable() } catch { throw CarillonError(.journal, "\(error)") }
    return (journal.campaigns.filter { groups.contains($0.group) }, lists.finish())
  }
}

extension JournalReport {
  /// What a half-written end may mean. The journal cannot know who cut it. What a killed process or
  /// a loss of power leaves half written was never acknowledged.
  package var tornTailNotice: String? {
    guard let tornTail else { return nil }
    let unsent = unfinished.map(\.unsent).reduce(0, +)
    let doubted =
      unsent > 0
      ? "the \(NumberText.grouped(unsent)) notifications that count as unsent, and what was "
        + "not taken in," : "what was not taken in"
    let doubt = unfinished.isEmpty ? "what it says may be older than what was sent" : "\(doubted) may have been sent"
    return "\(tornTail); they are cut off when it is opened. A kill or a loss of power loses nothing with them that "
      + "was sent, unless it was written with the sync setting never; if anything else has cut the file, \(doubt)"
  }

  package var strayNotice: String {
    "\(NumberText.grouped(strayCount)) notifications without an outcome belong to campaigns whose own records are "
      + "lost: they cannot be resumed, and are in no account"
  }
}

/// The token file of a campaign in a journal. The journal has no tokens of lines that are nothing
/// but a token: it says where in this file they are.
struct CampaignTokenFile {
  let path: String
  let fingerprint: FileFingerprint

  /// - Parameter isCompared: it is known to be what it was.
  /// - Throws: if it is not, or cannot be read.
  func open(isCompared: Bool) throws(CarillonError) -> AudienceFile {
    if !isCompared, let difference = try fingerprint.difference(of: path) {
      throw CarillonError(.journalContent, difference)
    }
    return try describingErrors { try AudienceFile(path: path) }
  }
}
