internal import ArgumentParser
internal import Carillon
internal import PushEngine
internal import PushServer

/// The journal of one `carillon send`, opened.
struct SendJournal: Sendable {
  let journal: EngineJournal
  let directory: String
  let report: JournalReport
  let sync: JournalConfiguration.Sync

  static func open(_ settings: JournalConfiguration, directory: String, skipsDamage: Bool) throws -> SendJournal {
    var options = EngineJournalOptions()
    options.skipsDamage = skipsDamage
    options.sync =
      switch settings.sync {
      case .always: .always
      case .interval: .interval(settings.interval)
      case .never: .never
      }
    do throws(JournalProblem) {
      let (journal, report) = try EngineJournal.open(directory: directory, options: options)
      let opened = SendJournal(journal: journal, directory: directory, report: report, sync: settings.sync)
      opened.tellWhatWasFound()
      return opened
    } catch {
      switch error.kind {
      case .inUse: throw CommandFailure.couldNotRun("\(error): only one can have it at a time")
      case .damaged:
        throw CommandFailure.couldNotRun(
          "\(error); carillon journal verify \(directory.asShellWord) lists every such place, and --skip-damaged goes on over them and counts what is lost")
      case .other: throw CommandFailure.couldNotRun("\(error)")
      }
    }
  }

  private func tellWhatWasFound() {
    func say(_ sentence: String) { StandardStream.error.writeLine("carillon: \(sentence.asSentence)") }
    if let notice = report.tornTailNotice { say("journal: \(notice)") }
    for place in report.damage { say("journal: damaged: \(place)") }
    let lost = report.campaigns.map(\.lost).reduce(0, +)
    if report.strayCount > 0 { say("journal: \(report.strayNotice)") }
    if !report.damage.isEmpty {
      say("journal: \(report.lostRecordCount) records are known to be lost, and with them the fate of \(lost) notifications, which count as unknown")
    }
  }

  /// What to say when something is left in it.
  var howToGoOn: String {
    // The journal does not remember how durable it was asked to be.
    "carillon send --resume --journal \(directory.asShellWord)" + (sync == JournalConfiguration().sync ? "" : " --sync \(sync.rawValue)")
  }

  /// What there is to say where no campaign is to be gone on with. The journal is closed then.
  ///
  /// - Throws: the exit status when it is not 0.
  func finishWithoutCampaign(json: Bool) async throws {
    let last = report.campaigns.map(\.campaign.group).max()
    let ended = report.campaigns.map(\.campaign).filter { $0.group == last }
    guard report.isClosed || !ended.isEmpty && !report.recordsAreClosed else {
      // Left as it is, so that this is said again.
      throw CommandFailure.usage(
        "The journal \(directory) holds nothing to go on with: the process that had it last ended before its campaign had begun, and sent nothing")
    }
    guard !ended.isEmpty else {
      StandardStream.error.writeLine("carillon: the journal \(directory) holds nothing to go on with: every campaign in it has ended.")
      return try await failingLater { try await journal.close() }
    }
    StandardStream.error.writeLine("carillon: the campaign has ended, so there is nothing to go on with; this is its account.")
    for sentence in completeLists(of: ended) { StandardStream.error.writeLine("carillon: \(sentence.asSentence)") }
    try await giveAccount(of: ended, json: json)
  }

  /// A list that cannot be completed does not stop the account.
  private func completeLists(of ended: [JournalledCampaign]) -> [String] {
    do {
      return try EndedLists(self, ended).complete()
    } catch {
      return [CommandFailure.describing(error).sentence]
    }
  }

  /// Prints the account of campaigns that have ended, and closes the journal. It keeps them until another campaign has ended in it, so that the account can be asked for
  /// again.
  ///
  /// - Throws: the exit status when it is not 0.
  func giveAccount(of ended: [JournalledCampaign], json: Bool) async throws {
    let accounts = Dictionary(grouping: ended, by: \.app).map { AccountSnapshot.App(id: $0.key, account: $0.value.map(\.account).reduce(Account(), +)) }
    let account = AccountSnapshot(apps: accounts.sorted { $0.id < $1.id }, seconds: 0)
    if let problem = account.show(json: json) { throw CommandFailure.couldNotRun(problem) }
    try await failingLater { try await journal.close(forgetsEnded: false) }
    if account.exitStatus != .success { throw account.exitStatus }
  }

  /// Throws if an earlier campaign is to be gone on with first.
  func checkIsFinished() throws {
    guard let state = report.unfinished.first else { return }
    let campaign = state.campaign
    throw CommandFailure.usage(
      "The journal \(directory) holds a campaign of \(campaign.app) that has not ended (\(campaign.account.settled) of \(campaign.account.submitted) notifications settled): "
        + "go on with it by \(howToGoOn), or give it up by carillon journal abandon \(directory.asShellWord).")
  }
}

/// The flags of `send` that concern its journal.
struct JournalFlags: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "Keeps a journal in this directory, so that the campaign can be gone on with (default: the configuration's, or none).", valueName: "dir"))
  var journal: String?
  @Option(
    help: ArgumentHelp(
      "When the journal is safe from a loss of power: at once, within 10 ms, or when the system gets to it; from a kill it always is (default: interval).",
      valueName: "always|interval|never"))
  var sync: JournalConfiguration.Sync?
  @Flag(help: "Goes on with the campaign in the journal.") var resume = false
  @Flag(help: "Goes on over damaged places of the journal, and counts what was lost there.") var skipDamaged = false

  func check() throws {
    if skipDamaged, !resume { throw ValidationError("--skip-damaged needs --resume.") }
  }
}

extension JournalConfiguration.Sync: ExpressibleByArgument {}
