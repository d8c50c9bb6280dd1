internal import ArgumentParser
internal import Carillon
internal import Foundation
internal import PushServer
internal import PushWire

@main struct MainCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "carillon", abstract: "Sends push notifications in bulk, and accounts for every notification.",
    discussion: """
      Try it with the built-in simulator, in two terminals:

        carillon simulate --make-certificates certs --app com.example.news
        carillon simulate --certificate certs/server.pem \\
          --key certs/server.key --client-ca certs/ca.pem

        carillon send --gateway localhost:2195 --trust certs/ca.pem \\
          --certificate certs/com.example.news.pem \\
          --key certs/com.example.news.key \\
          --payload hello.json --tokens tokens.txt

      Exit status: 0 all accepted, 1 some were not (the account shows why), 2 wrong flags, files or configuration, \
      3 it could not run, or standard output could not be written.
      """,
    version: """
      carillon \(ProgramFacts.built.text), API version 1
      \(ProgramFacts.built.packages.map { "\($0.name) \($0.version)" }.joined(separator: ", "))
      """,
    subcommands: [
      SendCommand.self, InitCommand.self, ServeCommand.self, StatusCommand.self, ReloadCommand.self, AppCommand.self,
      CampaignCommand.self, DeviceCommand.self, KeyCommand.self, StoreCommand.self, NodeCommand.self,
      WebhookCommand.self, SimulateCommand.self, BenchCommand.self, FeedbackCommand.self, JournalCommand.self,
      CredentialCommand.self, PayloadCommand.self, ChannelCommand.self, VerifyCommand.self,
    ])

  static func main() async {
    StandardStream.occupyClosedDescriptors()
    // A closed pipe is an error of the write, and does not end the process.
    signal(SIGPIPE, SIG_IGN)
    // The same for a file at its size limit (ulimit -f).
    signal(SIGXFSZ, SIG_IGN)
    let status = await run(arguments: Array(CommandLine.arguments.dropFirst()))
    afterOutput(status).end()
  }

  /// A result that did not reach standard output is a failure.
  private static func afterOutput(_ status: ExitStatus) -> ExitStatus {
    guard status == .success || status == .findings, let problem = StandardStream.output.problem else { return status }
    StandardStream.error.writeLine("carillon: standard output is not complete: \(problem).")
    return .couldNotRun
  }

  /// Parses the arguments, runs the command, reports errors, and returns the exit status.
  private static func run(arguments: [String]) async -> ExitStatus {
    if let sentence = unknownCommand(in: arguments) {
      StandardStream.error.writeLine("carillon: \(sentence)")
      return .usage
    }
    do {
      var command = try parseAsRoot(arguments)
      if var command = command as? any AsyncParsableCommand { try await command.run() } else { try command.run() }
      return .success
    } catch { return report(error) }
  }

  /// A sentence about the first word that names no command; nil: every word that should does.
  private static func unknownCommand(in arguments: [String]) -> String? {
    var command: any ParsableCommand.Type = Self.self
    var path = _commandName
    for word in arguments {
      let subcommands = command.configuration.subcommands
      guard !subcommands.isEmpty, !word.hasPrefix("-"), word != "help" else { return nil }
      guard let next = subcommands.first(where: { $0._commandName == word }) else {
        let names = subcommands.map { $0._commandName }
        let advice =
          Suggestion.nearest(to: word, in: names).map { "did you mean \"\(path) \($0)\"?" }
          ?? "there are \(names.joined(separator: ", "))."
        return "\(path) has no command \(word.cited); \(advice) Add --help for help."
      }
      command = next
      path += " \(word)"
    }
    return nil
  }

  private static func report(_ error: any Error) -> ExitStatus {
    switch error {
    case let status as ExitStatus: return status
    case is CommandFailure, is CarillonError, is ServiceFailure:
      let failure = CommandFailure.describing(error)
      StandardStream.error.writeLine("carillon: \(failure.sentence)")
      return failure.status
    default:
      if exitCode(for: error) == .success {
        // Help was asked for.
        StandardStream.output.writeLine(fullMessage(for: error))
        return .success
      }
      let message = message(for: error)
      let lines = message.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
      // Allowed values stand on lines of their own, each behind a hyphen.
      let sentences = lines.filter { !$0.hasPrefix("- ") }
      let values = lines.filter { $0.hasPrefix("- ") }.map { $0.dropFirst(2) }
      let text = sentences.joined(separator: " ") + (values.isEmpty ? "" : " " + values.joined(separator: ", "))
      StandardStream.error.writeLine("carillon: \(text.asSentence) Add --help for help.")
      return .usage
    }
  }
}
