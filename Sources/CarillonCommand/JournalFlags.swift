internal import ArgumentParser
internal import Carillon
internal import PushEngine

/// The flags of `send` that concern its journal.
struct JournalFlags: ParsableArguments {
  @Option(
    help: .init(
      "Keeps a journal in this directory, so that the campaign can be gone on with (default: the configuration's, "
        + "or none).", valueName: "dir")) var journal: String?
  @Option(
    help: .init(
      "When the journal is safe from a loss of power: at once, within 10 ms, or when the system gets to it; from a "
        + "kill it always is (default: interval).", valueName: "always|interval|never"))
  var sync: JournalConfiguration.Sync?
  @Flag(help: "Goes on with the campaign in the journal.") var resume = false
  @Flag(help: "Goes on over damaged places of the journal, and counts what was lost there.") var skipDamaged = false

  func check() throws { if skipDamaged, !resume { throw ValidationError("--skip-damaged needs --resume.") } }
}

extension JournalConfiguration.Sync: ExpressibleByArgument {}

extension SendJournal {
  /// Writes to standard error what was found when it was opened.
  func showFindings() {
    for finding in findings { StandardStream.error.writeLine("carillon: journal: \(finding.asSentence)") }
  }

  /// For a journal without an unfinished campaign: gives the account of the last ones, and closes
  /// it.
  ///
  /// - Throws: the exit status when it is not 0.
  func finishWithoutCampaign(json: Bool) async throws {
    let ended = try lastEnded()
    guard !ended.isEmpty else {
      StandardStream.error.writeLine(
        "carillon: the journal \(directory) holds nothing to go on with: every campaign in it has ended.")
      return try await close()
    }
    StandardStream.error.writeLine(
      "carillon: the campaign has ended, so there is nothing to go on with; this is its account.")
    for sentence in completeLists(of: ended) { StandardStream.error.writeLine("carillon: \(sentence.asSentence)") }
    try await giveAccount(of: ended, json: json)
  }

  /// Prints the account of campaigns that have ended, and closes the journal, which keeps them: the
  /// account can be asked for again.
  ///
  /// - Throws: the exit status when it is not 0.
  func giveAccount(of ended: [JournalledCampaign], json: Bool) async throws {
    let account = account(of: ended)
    if let problem = account.show(json: json) { throw CommandFailure.couldNotRun(problem) }
    try await close(forgetsEnded: false)
    if account.exitStatus != .success { throw account.exitStatus }
  }
}
