internal import ArgumentParser
internal import Carillon

struct VerifyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "verify", abstract: "Compares an account and its list of outcomes with the record of a simulator.",
    discussion: """
      Each refused line of the record is compared with its row of the list, each row of the list with the lines of its \
      token, and every count of the account with rows and lines. The record must be of this campaign alone.

        carillon simulate --record record.jsonl …
        carillon send --outcomes list.csv --json … > account.json
        carillon verify --account account.json --outcomes list.csv \\
          --record record.jsonl

      Exit status: 0 everything agrees, 1 it does not (the first 20 differences are listed), 2 a file cannot be read, \
      or is not what its flag asks for.
      """)

  @Option(help: .init("What carillon send --json has printed.", valueName: "file")) var account: String
  @Option(help: .init("The list of carillon send --outcomes.", valueName: "file")) var outcomes: String
  @Option(help: .init("The record of carillon simulate --record.", valueName: "file")) var record: String
  @Option(
    name: .customLong("app"),
    help: .init(
      "Which topic of the record an app of the account is; may be repeated (default: the one that ends with the app).",
      valueName: "id=topic")) var apps: [String] = []
  @Flag(help: "One JSON object on standard output.") var json = false

  func run() throws {
    var topics: [String: String] = [:]
    for pair in apps {
      let parts = pair.split(separator: "=", maxSplits: 1).map(String.init)
      guard parts.count == 2 else { throw ValidationError("--app must be ID=TOPIC, not \"\(pair)\".") }
      topics[parts[0]] = parts[1]
    }
    let verification = try Verification(account: account, outcomes: outcomes, record: record, topics: topics)
    StandardStream.output.writeLine(json ? verification.json : Self.text(verification))
    if verification.differenceCount > 0 { throw ExitStatus.findings }
  }

  private static func text(_ verification: Verification) -> String {
    var rows = [["", "account", "list", "record", ""]]
    for app in verification.apps {
      rows.append([app.id, NumberText.grouped(app.submitted), "", "", "submitted"])
      rows += app.counts.map { count in
        let others = [count.list, count.record].map { $0.map(NumberText.grouped) ?? "-" }
        return ["  \(count.title)", NumberText.grouped(count.account)] + others + [count.isEqual ? "agrees" : "DIFFERS"]
      }
    }
    var lines = TextTable.lines(rows, leftAligned: [0, 4])
    lines.append(
      "Compared \(NumberText.grouped(verification.lineCount)) lines of the record and "
        + "\(NumberText.grouped(verification.rowCount)) rows of the list, one by one, and the counts above: "
        + (verification.differenceCount == 0 ? "all agree." : "\(verification.differenceCount) differences."))
    lines += verification.differences
    if verification.differenceCount > verification.differences.count { lines.append("…") }
    return lines.joined(separator: "\n")
  }
}
