internal import ArgumentParser
internal import Carillon
internal import PushServer

struct StatusCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "status", abstract: "Shows the apps of a running service and their state.",
    discussion: """
        carillon status --config carillon.yaml --watch

      Exit status: 0 every app runs, 1 some do not, 2 the service refuses the request, 3 it cannot be reached.
      """)

  @OptionGroup var service: ServiceOptions
  @Flag(help: "Show it again every second, until Ctrl-C.") var watch = false
  @Flag(help: "The service's own JSON, one line each time.") var json = false

  func run() async throws {
    let client = try service.client()
    repeat {
      let reply = try await client.send(.get("/v1/apps"))
      let apps = try reply.decoded(ServiceStatus.self).items
      if json {
        StandardStream.output.writeLine(String(decoding: reply.body, as: UTF8.self))
      } else {
        let clear = watch && StandardStream.output.isTerminal ? "\u{1B}[H\u{1B}[2J" : ""
        if !clear.isEmpty { _ = StandardStream.output.write(Array(clear.utf8)) }
        for line in ServiceStatus.table(apps) { StandardStream.output.writeLine(line) }
      }
      guard watch else {
        if apps.contains(where: { $0.state != "running" }) { throw ExitStatus.findings }
        return
      }
      try await Task.sleep(for: .seconds(1))
    } while StandardStream.output.problem == nil
  }
}
