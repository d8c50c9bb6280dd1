internal import ArgumentParser
internal import PushServer

struct AppCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "app", abstract: "Pauses and resumes the apps of a running service.",
    subcommands: [Pause.self, Resume.self])

  struct Pause: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Stops sending for an app. What is taken in waits, and is sent when the app is resumed.")

    @OptionGroup var service: ServiceOptions
    @Argument(help: "The app's id.") var app: String

    func run() async throws {
      _ = try await service.client().send(.post("/v1/apps/\(ServiceRequest.segment(app)):pause"))
    }
  }

  struct Resume: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Sends again for an app that was paused or suspended.")

    @OptionGroup var service: ServiceOptions
    @Argument(help: "The app's id.") var app: String

    func run() async throws {
      _ = try await service.client().send(.post("/v1/apps/\(ServiceRequest.segment(app)):resume"))
    }
  }
}
