internal import ArgumentParser
internal import Carillon
internal import Foundation
internal import PushServer
internal import PushWire

struct DeviceCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "device", abstract: "Imports devices into a running service, and exports them.",
    subcommands: [Import.self, Export.self])

  struct Import: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Registers the devices of a file with the service.",
      discussion: """
        The file has a JSON object on each line, or is CSV with a header. Its fields are token, and any of language, \
        timeZone, tags (in CSV separated by spaces), userId, registeredAt and replacesToken. Devices that the service has \
        already are updated, so an import that was cut off can be repeated.

          carillon device import --config carillon.yaml --app news devices.csv

        Exit status: 0 every line was taken, 1 some were not, 2 wrong flags or files, 3 the service cannot be reached.
        """)

    @OptionGroup var service: ServiceOptions
    @Option(help: .init("The app.", valueName: "id")) var app: String
    @Flag(help: "The service's own JSON instead of sentences.") var json = false
    @Argument(help: "The file; - is standard input.") var file: String

    private struct Result: Decodable {
      struct Defect: Decodable {
        let line: Int
        let detail: String
      }
      let created: Int
      let updated: Int
      let rejected: Int
      let errors: [Defect]
    }

    func run() async throws {
      let type = file.lowercased().hasSuffix(".csv") ? "text/csv" : "application/x-ndjson"
      let client = try service.client()
      let path = "/v1/apps/\(app.asPathSegment)/devices:import"
      let reply = try await UploadDisplay.during(file) { sent in
        try await client.send(.upload(path, file: file, type: type, sent: sent))
      }
      let result = try reply.decoded(Result.self)
      if json {
        StandardStream.output.writeLine(String(decoding: reply.body, as: UTF8.self))
      } else {
        StandardStream.output.writeLine(
          "\(NumberText.grouped(result.created)) created, \(NumberText.grouped(result.updated)) updated, "
            + "\(NumberText.grouped(result.rejected)) rejected.")
        for error in result.errors { StandardStream.error.writeLine("line \(error.line): \(error.detail)") }
      }
      if result.rejected > 0 { throw ExitStatus.findings }
    }
  }

  struct Export: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Writes the devices of an app, in a form that can be imported.",
      discussion: """
          carillon device export --config carillon.yaml --app news > devices.csv
        """)

    @OptionGroup var service: ServiceOptions
    @Option(help: .init("The app.", valueName: "id")) var app: String
    @Option(help: .init("Only devices with this tag.", valueName: "tag")) var tag: String?
    @Flag(help: "A JSON object on each line instead of CSV.") var json = false

    private static let pageLimit = 1000

    private struct Page: Decodable {
      let items: [Device]
      let nextCursor: String?
    }

    private struct Device: Decodable {
      let token: String
      let language: String?
      let timeZone: String?
      let tags: [String]
      let registeredAt: String
      let userId: String?

      /// Only the user's id may have a comma or a quotation mark in it.
      var csv: String {
        let user = userId.map { "\"\($0.replacing("\"", with: "\"\""))\"" } ?? ""
        return [token, language ?? "", timeZone ?? "", tags.joined(separator: " "), registeredAt, user]
          .joined(separator: ",")
      }

      var json: String {
        return JSONWriter.text { json in
          json.field("token", token)
          json.field("language", language)
          json.field("timeZone", timeZone)
          json.field("tags", tags)
          json.field("registeredAt", registeredAt)
          json.field("userId", userId)
        }
      }
    }

    func run() async throws {
      let client = try service.client()
      if !json { StandardStream.output.writeLine("token,language,timeZone,tags,registeredAt,userId") }
      var cursor: String?
      repeat {
        var query = [(name: "limit", value: String(Self.pageLimit))]
        if let tag { query.append(("tag", tag)) }
        if let cursor { query.append(("cursor", cursor)) }
        let page = try await client.send(.get("/v1/apps/\(app.asPathSegment)/devices", query: query))
          .decoded(Page.self)
        for device in page.items { StandardStream.output.writeLine(json ? device.json : device.csv) }
        cursor = page.nextCursor
      } while cursor != nil && StandardStream.output.problem == nil
    }
  }
}
