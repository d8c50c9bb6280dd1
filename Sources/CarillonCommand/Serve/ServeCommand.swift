internal import ArgumentParser
internal import Carillon
internal import Foundation
internal import PushServer
internal import PushTransport

struct ServeCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "serve", abstract: "Runs the push service: many apps, fed over HTTP.",
    discussion: """
      Reads the apps, the journal and what to listen on from a file:

        journal: { directory: journal, sync: interval }
        api: { listen: 127.0.0.1:8480 }
        apps:
          - id: news
            topic: com.example.news
            transport: http2
            credential: { key: AuthKey_ABC123DEFG.p8, team-id: DEF123GHIJ }

      A first key, and a first notification:

        carillon key create --config carillon.yaml --name me --all-apps \\
          --scope send --scope read
        curl -H "Authorization: Bearer $KEY" \\
          http://127.0.0.1:8480/v1/apps/news/notifications \\
          -d '{"token":"…","payload":{"aps":{"alert":"Hello"}}}'

      A notification that was answered with 202 is in the journal: it gets its outcome, also after a crash. SIGHUP, \
      "carillon reload" and a change of the files make it read the apps and their credentials again.

      An app whose credential cannot be used begins suspended, and the others work: --check shows it as an error.

      A disk without room does not end it: it waits until journal and store can be written, and says so.

      Exit status: 0 it was asked to end and did, or --check has found that it would start, 2 the configuration is \
      wrong, 3 it could not run.
      """)

  @Option(help: .init("The configuration.", valueName: "file")) var config: String
  @Flag(help: "Print one JSON object when it serves, with its ports.") var json = false
  @Flag(help: "Read everything, say what the service would do, and end.") var check = false

  @Flag(help: "Let debuggers read the process, and the system write core files: both would have the keys of apps.")
  var debuggable = false

  @Option(help: .init("Say which app a client of the bridge would be, by its certificate, and end.", valueName: "file"))
  var explainClient: String?

  func run() async throws {
    let configuration = try ServerFile.read(config)
    if let explainClient {
      let (isAccepted, text) = try BridgeExplanation.explain(explainClient, configuration, at: NIOLoop.wallClock)
      StandardStream.output.writeLine(text)
      if !isAccepted { throw ExitStatus.findings }
      return
    }
    if check { return try await check(configuration) }
    if !debuggable { ProcessMemory.hide() }
    let log = ServiceLog(configuration.log) { StandardStream.error.writeLine($0) }
    let daemon = RestartingDaemon(
      configuration, file: config, log: log, program: .built,
      manager: ServiceManager(environment: ProcessInfo.processInfo.environment)
    ) { sentence in
      StandardStream.error.writeLine("carillon: \(sentence)")
      ExitStatus.couldNotRun.end()
    }
    let json = json
    do {
      try await daemon.run { ports in
        StandardStream.output.writeLine(
          json
            ? ports.readyJSON
            : "Serves the API on port \(ports.api), health and metrics on port \(ports.admin).")
      }
    } catch let error as CarillonError {
      throw error
    } catch let error as ListenFailure {
      throw CommandFailure.couldNotRun("\(error)")
    } catch {
      throw CommandFailure.couldNotRun("it cannot serve: \(error)")
    }
  }

  private func check(_ configuration: ServerConfiguration) async throws {
    let report = await ServeCheck.run(
      configuration, file: config, at: NIOLoop.wallClock, environment: ProcessInfo.processInfo.environment
    ) { admin in
      let address = ServiceAddress(host: admin.host, port: admin.port)
      return (try? await APIClient(address, key: nil).send(.get("/healthz"))) != nil
    }
    if json {
      StandardStream.output.writeLine(report.json)
    } else {
      for line in report.lines { StandardStream.output.writeLine(line) }
    }
    if !report.problems.isEmpty { throw ExitStatus.usage }
  }
}

/// The configuration file of the service.
enum ServerFile {
  static func read(_ path: String) throws -> ServerConfiguration {
    do throws(ConfigurationError) { return try ServerConfiguration.read(file: path) } catch {
      throw CommandFailure.usage("\(error)")
    }
  }
}
