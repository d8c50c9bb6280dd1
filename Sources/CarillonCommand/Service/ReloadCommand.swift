internal import ArgumentParser
internal import PushServer

struct ReloadCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "reload", abstract: "Makes a running service read its configuration and credentials again.",
    discussion: """
      The key needs the scope "admin". SIGHUP does the same, and so does a change of the files.

      Exit status: 0 everything is in use, 2 something is wrong and stays as it was, 3 the service cannot be reached.
      """)

  @OptionGroup var service: ServiceOptions

  private struct Report: Decodable {
    let added: [String]
    let removed: [String]
    let refreshed: [String]
    let waiting: [String]?
  }

  func run() async throws {
    let report = try await service.client().send(.post("/v1/reload")).decoded(Report.self)
    func line(_ word: String, _ apps: [String]) {
      if !apps.isEmpty { StandardStream.output.writeLine("\(word): \(apps.joined(separator: ", "))") }
    }
    line("added", report.added)
    line("removed", report.removed)
    line("another credential", report.refreshed)
    if let waiting = report.waiting, !waiting.isEmpty {
      StandardStream.output.writeLine("counts after the next start: \(waiting.joined(separator: "; "))")
    }
  }
}
