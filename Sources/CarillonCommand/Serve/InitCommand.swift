internal import ArgumentParser
internal import Foundation
internal import PushServer

struct InitCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "init", abstract: "Writes the configuration and the first key of a push service.",
    discussion: """
      Prints what to copy into the terminal to send the first notification.

        carillon init demo --try

      With --try, everything is there: throw-away certificates, a simulator of Apple's service, and scripts that \
      start and stop both.
      """)

  @Argument(help: "A folder, which is made if it is not there.") var folder: String
  @Flag(name: .customLong("try"), help: "For a trial beside the simulator, with throw-away certificates.")
  var isTrial = false
  @Option(
    help: .init(
      "Of the API; the next ones are for health and metrics, and for the simulator (default: 8480).",
      valueName: "number"))
  var port = 8480

  func run() async throws {
    guard (1...65533).contains(port) else { throw ValidationError("--port must be from 1 to 65533, not \(port).") }
    let program = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? "carillon"
    let setup = ServiceSetup(directory: folder, isTrial: isTrial, port: port, program: program)
    try await setup.write()
    StandardStream.output.writeLine(setup.nextSteps)
  }
}
