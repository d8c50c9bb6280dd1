internal import ArgumentParser
internal import Carillon
internal import Foundation
internal import PushServer
internal import PushStoreSQLite
internal import PushWire

struct StoreCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "store", abstract: "Checks, backs up and moves what a service remembers.",
    subcommands: [Check.self, Backup.self, Migrate.self, Copy.self])

  struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Reads the whole store and says whether it is in order.",
      discussion: """
        Changes nothing, and works while the service runs. Of a database it counts the rows, looks for rows \
        without those that they name, and says what a service would miss; pg_amcheck looks at its files.

          carillon store check --config carillon.yaml

        Exit status: 0 it is in order, 1 it is damaged, 2 wrong flags or files, 3 it cannot be read.
        """)

    @Option(help: .init("The configuration of the service.", valueName: "file")) var config: String
    @Flag(help: "One JSON object on standard output.") var json = false

    func run() async throws {
      let configuration = try ServerFile.read(config)
      if let contents = try configuration.store.contents() {
        try StoreReportPrinting.print(contents, config, json: json)
      } else {
        try await StoreReportPrinting.print(try StoreFilePath.of(configuration, config), json: json)
      }
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

extension StoreCommand {
  struct Migrate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Brings the tables of the store up to date, or makes them.",
      discussion: """
        The service does so at its start. Do it before, to see that the user of the database has the rights, or \
        if the change takes long. Tables are only added to, so a service of the version before may run on.

          carillon store migrate --config carillon.yaml

        Exit status: 0 it is up to date, 2 wrong flags or files, 3 it could not be changed.
        """)

    @Option(help: .init("The configuration of the service.", valueName: "file")) var config: String

    func run() async throws {
      StandardStream.output.writeLine(try ServerFile.read(config).store.migrate(besides: config))
    }
  }

  struct Copy: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Moves a store from its file into a database.",
      discussion: """
        Stop the service, write the database into its configuration, and copy:

          carillon store copy --from store.db --config carillon.yaml

        The database must be empty. It gets everything or nothing, and the rows of each table are counted in both. \
        The files of campaigns, in the folder store.db.campaigns, are copied to store.campaigns beside the \
        configuration. The file and its folder stay: they are the way back until the service has started on the \
        database, and can be deleted then. The journal stays where it is.

        Exit status: 0 everything is there, 2 wrong flags or files, 3 nothing was copied.
        """)

    @Option(help: .init("The file of the store until now.", valueName: "store.db")) var from: String
    @Option(help: .init("The configuration of the service, with the database.", valueName: "file")) var config: String
    @Flag(help: "One JSON object on standard output.") var json = false

    /// Tables that take some seconds.
    private static let longTable = 200_000

    func run() async throws {
      let moved = try ServerFile.read(config).store.copy(from: from, besides: config) { table, count, total in
        guard total >= Self.longTable, count % 100_000 < 10_000 || count == total else { return }
        StandardStream.error.writeLine("\(table): \(count) of \(total)")
      }
      guard !json else {
        return StandardStream.output.writeLine(
          JSONWriter.text { json in
            json.object("counts") { for entry in moved.counts { $0.field(entry.table, entry.copy) } }
            json.field("files", moved.files)
          })
      }
      let rows = moved.counts.map { [$0.table, "\($0.origin)", "\($0.copy)"] }
      for line in TextTable.lines([["table", "file", "database"]] + rows, leftAligned: [0]) {
        StandardStream.output.writeLine(line)
      }
      if let files = moved.files { StandardStream.output.writeLine("The files of campaigns are in \(files).") }
      StandardStream.output.writeLine("Everything is in the database. Start the service with \(config).")
    }
  }
}

private enum StoreFilePath {
  static func of(_ configuration: ServerConfiguration, _ config: String) throws -> String {
    guard let path = configuration.store.path(besides: config) else {
      throw CommandFailure.usage(
        "the store of \(config) is in a database, which has its own tools: pg_dump or pg_basebackup back it up")
    }
    return path
  }
}

private enum StoreReportPrinting {
  static func print(
    _ contents: (problems: [String], counts: [(table: String, count: Int)]), _ config: String, json: Bool
  ) throws {
    let isWhole = contents.problems.isEmpty
    if json {
      StandardStream.output.writeLine(
        JSONWriter.text { json in
          json.field("problems", contents.problems)
          json.object("counts") { for (table, count) in contents.counts { $0.field(table, count) } }
        })
    } else {
      StandardStream.output.writeLine(
        isWhole ? "The database of \(config) is in order." : "The database of \(config) is not in order:")
      for problem in contents.problems { StandardStream.output.writeLine("  \(problem)") }
      for (table, count) in contents.counts { StandardStream.output.writeLine("  \(table): \(count)") }
    }
    if !isWhole { throw ExitStatus.findings }
  }

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
