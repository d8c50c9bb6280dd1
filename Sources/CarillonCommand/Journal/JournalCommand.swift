internal import ArgumentParser
internal import Carillon
internal import PushEngine
internal import PushSend
internal import PushWire

struct JournalCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "journal",
    abstract: "Shows or checks the journal of carillon send --journal, or abandons the campaigns in it.",
    subcommands: [JournalInspectCommand.self, JournalVerifyCommand.self, JournalAbandonCommand.self])
}

struct JournalInspectCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "inspect",
    abstract: "Shows the campaigns, unsettled and unknown notifications, and the segments on disk.",
    discussion: """
      It changes nothing, and can be used while a send is running. Then it shows a recent state, and may report \
      a half-written end.

        carillon journal inspect DIR
        carillon journal inspect DIR --json

      Each segment is a file of standard LZ4 frames; lz4 -dc SEGMENT reads it too.
      Exit status: 0 nothing is left to do, 1 there are unfinished campaigns or damaged places, 2 there is no journal.
      """)

  @Argument(help: .init("The journal's directory.", valueName: "dir")) var directory: String
  @Flag(help: "Prints one JSON object on standard output.") var json = false

  func run() throws {
    let report = try JournalDirectory.report(directory)
    StandardStream.output.writeLine(
      json
        ? JournalReportJSON.text(report)
        : JournalReportTable.text(report, resumeCommand: JournalDirectory.resumeCommand(directory, report)))
    if !report.unfinished.isEmpty || !report.damage.isEmpty { throw ExitStatus.findings }
  }
}

struct JournalVerifyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "verify",
    abstract: "Reads every byte of a journal, and lists all damage that a crash does not explain.",
    discussion: """
      A crash leaves a half-written end. This is not damage: it is cut off when the journal is opened next. The \
      report says what may be uncertain because of it.

        carillon journal verify DIR

      Exit status: 0 the journal is sound, 1 it is not, 2 there is no journal.
      """)

  @Argument(help: .init("The journal's directory.", valueName: "dir")) var directory: String
  @Flag(help: "Prints one JSON object on standard output.") var json = false

  func run() throws {
    let report = try JournalDirectory.report(directory)
    if json {
      StandardStream.output.writeLine(JournalReportJSON.verification(report))
    } else {
      for line in JournalReportTable.verification(report) { StandardStream.output.writeLine(line) }
    }
    if !report.damage.isEmpty { throw ExitStatus.findings }
  }
}

struct JournalAbandonCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "abandon",
    abstract: "Abandons the unfinished campaigns of a journal, and cancels unsent notifications.",
    discussion: """
      Prints the final account, and completes the list of outcomes, if there is one. Notifications that were \
      certainly not sent become cancelled; those that may have arrived become unknown. Lines of the token file \
      that were never read are in neither. Afterwards the directory can be used for a new campaign.

        carillon journal abandon DIR

      Exit status: that of carillon send.
      """)

  @Argument(help: .init("The journal's directory.", valueName: "dir")) var directory: String
  @Flag(help: "Skips damaged places, and counts what was lost there.") var skipDamaged = false
  @Flag(help: "Prints the account as one JSON object on standard output.") var json = false

  func run() async throws {
    try JournalDirectory.check(directory)
    let opened = try SendJournal.openReporting(JournalConfiguration(), directory: directory, skipsDamage: skipDamaged)
    guard !opened.report.unfinished.isEmpty else {
      StandardStream.error.writeLine(
        "carillon: the journal \(directory) holds nothing to abandon: every campaign in it has ended.")
      return try await opened.close(forgetsEnded: false)
    }
    let (ended, problem) = try await opened.abandon()
    if let problem { StandardStream.error.writeLine("carillon: \(problem.asSentence)") }
    try await opened.giveAccount(of: ended, json: json)
  }
}

/// A directory that should hold a journal.
enum JournalDirectory {
  static func check(_ directory: String) throws {
    guard EngineJournal.exists(directory: directory) else {
      throw CommandFailure.usage("There is no journal in \(directory)")
    }
  }

  /// The command that resumes the campaign in a journal.
  static func resumeCommand(_ directory: String, _ report: JournalReport? = nil) -> String {
    "carillon send --resume --journal \(directory.asShellWord)"
      + (report?.damage.isEmpty ?? true ? "" : " --skip-damaged")
  }

  static func report(_ directory: String) throws -> JournalReport {
    try check(directory)
    return try failing { try EngineJournal.inspect(directory: directory) }
  }
}
