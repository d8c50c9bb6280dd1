internal import ArgumentParser
internal import Carillon
internal import PushWire

struct VerifyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "verify", abstract: "Compares an account and its list of outcomes with the record of a simulator.",
    discussion: """
      Compares each refused line of the record with its row in the list, each row of the list with the lines of its \
      token, and each count of the account with rows and lines. The record must have only this campaign.

        carillon simulate --record record.jsonl …
        carillon send --outcomes list.csv --json … > account.json
        carillon verify --account account.json --outcomes list.csv \\
          --record record.jsonl

      Exit status: 0 everything agrees, 1 there are differences (the first 20 are listed), 2 a file cannot be read, \
      or has the wrong content.
      """)

  @Option(help: .init("The account that carillon send --json printed.", valueName: "file")) var account: String
  @Option(help: .init("The list of carillon send --outcomes.", valueName: "file")) var outcomes: String
  @Option(help: .init("The record of carillon simulate --record.", valueName: "file")) var record: String
  @Option(
    name: .customLong("app"),
    help: .init(
      "The topic in the record for an app of the account; may be repeated (default: the topic that ends with the id).",
      valueName: "id=topic")) var apps: [String] = []
  @Flag(help: "Prints one JSON object on standard output.") var json = false

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
