internal import ArgumentParser
internal import Carillon
internal import Foundation
internal import PushServer
internal import PushStoreSQLite
internal import PushWire

struct StoreCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "store", abstract: "Checks and backs up what a service remembers.",
    subcommands: [Check.self, Backup.self])

  struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Reads the whole store and says whether it is in order.",
      discussion: """
        Changes nothing, and works while the service runs.

          carillon store check --config carillon.yaml

        Exit status: 0 it is in order, 1 it is damaged, 2 wrong flags or files, 3 it cannot be read.
        """)

    @Option(help: .init("The configuration of the service.", valueName: "file")) var config: String
    @Flag(help: "One JSON object on standard output.") var json = false

    func run() async throws {
      try await StoreReportPrinting.print(try StoreFilePath.of(try ServerFile.read(config), config), json: json)
    }
  }

  struct Backup: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Copies the store, as it is at one moment.",
      discussion: """
        A running service makes the copy and sends it; the key needs the scope admin. Without a running service, \
        --config reads the store itself. The copy is checked. To use it, stop the service and put the copy in the \
        place of the store, without the files store.db-wal and store.db-shm.

          carillon store backup --config carillon.yaml copy.db

        Exit status: 0 the copy is whole, 1 it is damaged, 2 wrong flags or files, 3 it could not be made.
        """)

    @OptionGroup var service: ServiceOptions
    @Flag(help: "One JSON object on standard output.") var json = false
    @Argument(help: "The copy. It must not be there yet.") var output: String

    func run() async throws {
      guard !FileManager.default.fileExists(atPath: output) else {
        throw CommandFailure.usage("\(output) is there already; name a file that is not")
      }
      guard let config = service.config else {
        try await download(try service.client())
        return try await StoreReportPrinting.print(output, json: json)
      }
      let configuration = try ServerFile.read(config)
      let path = try StoreFilePath.of(configuration, config)
      do {
        if configuration.api.listen.port == 0 { throw ServiceFailure("It listens on any free port.") }
        try await download(try service.client())
      } catch let failure as ServiceFailure where failure.status == nil {
        // No service answers there.
        try await StoreMaintenance.backUp(path, to: output)
      }
      try await StoreReportPrinting.print(output, json: json)
    }

    private func download(_ client: APIClient) async throws {
      let partial = output + ".partial"
      guard FileManager.default.createFile(atPath: partial, contents: nil, attributes: [.posixPermissions: 0o600]),
        let file = FileHandle(forWritingAtPath: partial)
      else { throw CommandFailure.usage("\(partial) cannot be written; check the path and its permissions") }
      do {
        try await client.download(.post("/v1/store:backup")) { try file.write(contentsOf: $0) }
        try file.synchronize()
        try file.close()
        try FileManager.default.moveItem(atPath: partial, toPath: output)
      } catch {
        try? FileManager.default.removeItem(atPath: partial)
        throw error
      }
    }
  }
}

private enum StoreFilePath {
  static func of(_ configuration: ServerConfiguration, _ config: String) throws -> String {
    guard let path = configuration.store.path(besides: config) else {
      throw CommandFailure.usage(
        "the store of \(config) is in a database, which has its own tools: pg_dump or pg_basebackup back it up, "
          + "and pg_amcheck checks it")
    }
    return path
  }
}

private enum StoreReportPrinting {
  static func print(_ path: String, json: Bool) async throws {
    let report = try await StoreMaintenance.check(path)
    if json {
      let text = JSONWriter.text { json in
        json.field("path", path)
        json.field("version", report.version)
        json.field("problems", report.problems)
        json.object("counts") { for (table, count) in report.counts { $0.field(table, count) } }
      }
      StandardStream.output.writeLine(text)
    } else {
      StandardStream.output.writeLine(
        report.problems.isEmpty ? "\(path) is in order." : "\(path) is damaged: put a backup in its place.")
      for problem in report.problems { StandardStream.output.writeLine("  \(problem)") }
      StandardStream.output.writeLine("Tables as of change \(report.version).")
      for (table, count) in report.counts { StandardStream.output.writeLine("  \(table): \(count)") }
    }
    if !report.problems.isEmpty { throw ExitStatus.findings }
  }
}
