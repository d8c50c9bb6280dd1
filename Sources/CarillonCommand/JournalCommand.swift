internal import ArgumentParser
internal import Carillon
internal import PushEngine

struct JournalCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "journal",
    abstract: "Looks into the journal of carillon send --journal, checks it, or gives up what is left in it.",
    subcommands: [JournalInspectCommand.self, JournalVerifyCommand.self, JournalAbandonCommand.self])
}

struct JournalInspectCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "inspect", abstract: "Shows apps, campaigns, what is unsettled or unknown, and the segments on disk.",
    discussion: """
      It changes nothing, and may be used while a send is running: then it shows how things stood a moment ago, \
      and may see a half-written end.

        carillon journal inspect DIR
        carillon journal inspect DIR --json

      Every segment is a file of standard LZ4 frames: lz4 -dc SEGMENT reads it too.
      Exit status: 0 nothing is left to do, 1 there are unfinished campaigns or damaged places, 2 there is no journal.
      """)

  @Argument(help: .init("The journal's directory.", valueName: "dir")) var directory: String
  @Flag(help: "One JSON object on standard output.") var json = false

  func run() throws {
    let report = try JournalDirectory.report(directory)
    StandardStream.output.writeLine(
      json ? JournalReportJSON.text(report) : JournalReportTable.text(report, directory: directory))
    if !report.unfinished.isEmpty || !report.damage.isEmpty { throw ExitStatus.findings }
  }
}

struct JournalVerifyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "verify",
    abstract: "Reads every byte of a journal, and lists each place that a crash does not explain.",
    discussion: """
      A half-written end is what a crash leaves and no damage: it is cut off when the journal is next opened. What \
      may be in doubt because of it is said.

        carillon journal verify DIR

      Exit status: 0 the journal is sound, 1 it is not, 2 there is no journal.
      """)

  @Argument(help: .init("The journal's directory.", valueName: "dir")) var directory: String
  @Flag(help: "One JSON object on standard output.") var json = false

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
    commandName: "abandon", abstract: "Gives up the unfinished campaigns of a journal: what was not sent is cancelled.",
    discussion: """
      Prints the final account, and completes the list of outcomes, if there is one: what was taken in and \
      certainly not sent is cancelled, what may have arrived is \
      unknown. Lines that were never taken in are in neither. The directory can be used for a new campaign then.

        carillon journal abandon DIR

      Exit status as of carillon send.
      """)

  @Argument(help: .init("The journal's directory.", valueName: "dir")) var directory: String
  @Flag(help: "Goes on over damaged places, and counts what was lost there.") var skipDamaged = false
  @Flag(help: "The account as one JSON object on standard output.") var json = false

  func run() async throws {
    try JournalDirectory.check(directory)
    let opened = try SendJournal.open(JournalConfiguration(), directory: directory, skipsDamage: skipDamaged)
    opened.showFindings()
    guard !opened.report.unfinished.isEmpty else {
      StandardStream.error.writeLine(
        "carillon: the journal \(directory) holds nothing to give up: every campaign in it has ended.")
      return try await opened.close(forgetsEnded: false)
    }
    let (ended, problem) = try await opened.abandon()
    if let problem { StandardStream.error.writeLine("carillon: \(problem.asSentence)") }
    try await opened.giveAccount(of: ended, json: json)
  }
}

/// A directory that ought to hold a journal.
enum JournalDirectory {
  static func check(_ directory: String) throws {
    guard EngineJournal.exists(directory: directory) else {
      throw CommandFailure.usage("There is no journal in \(directory)")
    }
  }

  static func report(_ directory: String) throws -> JournalReport {
    try check(directory)
    return try failing { try EngineJournal.inspect(directory: directory) }
  }
}
