internal import ArgumentParser
internal import Carillon
internal import PushEngine
internal import PushSend
internal import PushWire

/// The flags of `send` for its journal.
struct JournalFlags: ParsableArguments {
  @Option(
    help: .init(
      "Keeps a journal in this directory, so that the campaign can be resumed (default: the configuration's, or "
        + "none).", valueName: "dir")) var journal: String?
  @Option(
    help: .init(
      "When the journal is safe from a loss of power: at once (always), within 10 ms (interval), or when the system "
        + "writes it (never); it is always safe from a kill (default: interval).", valueName: "always|interval|never"))
  var sync: JournalConfiguration.Sync?
  @Flag(help: "Resumes the campaign in the journal.") var resume = false
  @Flag(help: "Skips damaged places of the journal, and counts what was lost there.") var skipDamaged = false

  func check() throws { try Options.require("--resume", for: [("--skip-damaged", skipDamaged && !resume)]) }
}

extension JournalConfiguration.Sync: ExpressibleByArgument {}

extension SendJournal {
  /// Opens a journal, and writes to standard error what was found in it.
  static func openReporting(
    _ settings: JournalConfiguration, directory: String, skipsDamage: Bool
  ) throws -> SendJournal {
    do throws(JournalProblem) {
      let opened = try open(settings, directory: directory, skipsDamage: skipsDamage)
      for finding in opened.findings { StandardStream.error.writeLine("carillon: journal: \(finding.asSentence)") }
      return opened
    } catch {
      switch error.kind {
      case .inUse: throw CommandFailure.couldNotRun("\(error): only one process can use it at a time")
      case .damaged:
        throw CommandFailure.couldNotRun(
          "\(error); carillon journal verify \(directory.asShellWord) lists all damaged places, and --skip-damaged "
            + "skips them and counts what is lost")
      case .other: throw CommandFailure.couldNotRun("\(error)")
      }
    }
  }

  /// The command that resumes the campaign in the journal.
  var resumeCommand: String {
    // The journal does not store its sync setting.
    let sync = sync == JournalConfiguration().sync ? "" : " --sync \(sync.rawValue)"
    return JournalDirectory.resumeCommand(directory) + sync
  }

  /// The command that abandons the campaign in the journal.
  var abandonCommand: String { "carillon journal abandon \(directory.asShellWord)" }

  /// Throws if an earlier campaign must be resumed or abandoned first.
  func checkHasEnded() throws {
    do throws(CarillonError) { try checkIsFinished() } catch {
      throw CommandFailure(error, advice: "resume it with \(resumeCommand), or abandon it with \(abandonCommand)")
    }
  }

  /// Without an unfinished campaign: prints the last campaigns' account, and closes the journal.
  ///
  /// - Throws: the exit status when it is not 0.
  func finishWithoutCampaign(json: Bool) async throws {
    let ended = try lastEnded()
    guard !ended.isEmpty else {
      StandardStream.error.writeLine(
        "carillon: the journal \(directory) holds nothing to resume: every campaign in it has ended.")
      return try await close()
    }
    StandardStream.error.writeLine(
      "carillon: the campaign has ended, so there is nothing to resume; this is its account.")
    for sentence in completeLists(of: ended) { StandardStream.error.writeLine("carillon: \(sentence.asSentence)") }
    try await giveAccount(of: ended, json: json)
  }

  /// Prints the account of campaigns that have ended, and closes the journal. The journal keeps the
  /// campaigns, so that the account can be printed again.
  ///
  /// - Throws: the exit status when it is not 0.
  func giveAccount(of ended: [JournalledCampaign], json: Bool) async throws {
    let account = account(of: ended)
    if let problem = account.show(json: json) { throw CommandFailure.couldNotRun(problem) }
    try await close(forgetsEnded: false)
    if account.exitStatus != .success { throw account.exitStatus }
  }
}
