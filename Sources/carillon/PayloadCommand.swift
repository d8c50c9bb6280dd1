internal import ArgumentParser
internal import PushEngine
internal import PushServer
internal import PushWire

struct PayloadCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "payload", abstract: "Looks at payloads before they are sent.", subcommands: [Check.self])

  struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Says what is wrong with a payload, or looks wrong.",
      discussion: """
        Checks that the file is a JSON object with aps (or mdm), that every documented key has a value of the right kind, and that its size is allowed.
        Placeholders such as {{name}} are allowed, and count as one character.

          carillon payload check hello.json --command 2 --priority 5

        Exit status: 0 nothing is wrong (there may be warnings), 1 it would be refused, 2 the file cannot be read.
        """)

    @Argument(help: "The payload, a JSON file.") var file: String
    @Option(help: ArgumentHelp("The frame layout it is for: 0 and 1 allow 256 bytes, 2 allows 2048.", valueName: "0|1|2")) var command = 2
    @Option(help: ArgumentHelp("The priority it will be sent with (default: none).", valueName: "5|10")) var priority: Int?
    @Flag(help: "One JSON object on standard output.") var json = false

    /// Called first thing by run(), not by the parser: an unknown flag is to be named before a missing one.
    private func check() throws {
      _ = try Options.command(command)
      _ = try Options.priority(priority)
    }

    func run() throws {
      try check()
      let command = try Options.command(command)
      let bytes = try failing { try TextFile.read(file) }
      let template: PayloadTemplate
      do {
        template = try PayloadTemplate(parsing: bytes)
      } catch {
        throw CommandFailure.usage("\(file), \(error)")
      }
      let sample = template.sample
      let findings = Payload.check(sample, for: .binary(command), priority: try Options.priority(priority))
      let isGood = !findings.contains { $0.severity == .error }
      StandardStream.output.writeLine(json ? object(template, command, findings, isGood) : text(template, command, findings, isGood))
      if !isGood { throw ExitStatus.findings }
    }

    private func text(_ template: PayloadTemplate, _ command: Command, _ findings: [PayloadFinding], _ isGood: Bool) -> String {
      var lines = findings.map(\.description)
      let count = template.sample.count
      let size =
        "\(count) of \(command.payloadLimitDefault) bytes for command \(command.rawValue)\(template.columns.isEmpty ? "" : " with placeholders of one character")"
      lines.append(isGood ? "\(file) is good: \(size)." : "\(file) would be refused.")
      if !template.columns.isEmpty { lines.append("Columns that the token file needs: \(template.columns.joined(separator: ", ")).") }
      return lines.joined(separator: "\n")
    }

    private func object(_ template: PayloadTemplate, _ command: Command, _ findings: [PayloadFinding], _ isGood: Bool) -> String {
      var json = JSONWriter()
      json.object {
        $0.field("file", file)
        $0.field("good", isGood)
        $0.field("bytes", template.sample.count)
        $0.field("limit", command.payloadLimitDefault)
        $0.field("columns", template.columns)
        $0.array("findings", findings) { finding, json in
          json.field("severity", finding.severity.rawValue)
          json.field("path", "\(finding.path)")
          json.field("sentence", finding.sentence)
        }
      }
      return json.text
    }
  }
}
