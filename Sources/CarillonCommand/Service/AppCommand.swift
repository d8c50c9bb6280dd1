internal import ArgumentParser
internal import Carillon
internal import PushServer
internal import PushWire

struct AppCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "app", abstract: "Pauses and resumes the apps of a running service.",
    subcommands: [Pause.self, Resume.self])

  private struct Answer: Decodable {
    let state: String
    let reason: String?
  }

  struct Pause: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Stops sending for an app. What is taken in waits, and is sent when the app is resumed.")

    @OptionGroup var service: ServiceOptions
    @Argument(help: "The app's id.") var app: String

    func run() async throws {
      _ = try await service.client().send(.post("/v1/apps/\(app.asPathSegment):pause"))
      StandardStream.output.writeLine("The app \(app) is paused: what is taken in waits until it is resumed.")
    }
  }

  struct Resume: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Sends again for an app that was paused or suspended.")

    @OptionGroup var service: ServiceOptions
    @Argument(help: "The app's id.") var app: String

    func run() async throws {
      let reply = try await service.client().send(.post("/v1/apps/\(app.asPathSegment):resume"))
      let status = try reply.decoded(Answer.self)
      let reason = status.reason.map { ": \($0)" } ?? ""
      StandardStream.output.writeLine("The app \(app) is resumed. Its state is \(status.state)\(reason).".asSentence)
    }
  }
}
