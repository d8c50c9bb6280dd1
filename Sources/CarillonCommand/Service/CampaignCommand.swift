internal import ArgumentParser
internal import Carillon
internal import PushSend
internal import PushServer

struct CampaignCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "campaign", abstract: "Makes, starts and watches campaigns of a running service.",
    discussion: """
        carillon campaign create --config carillon.yaml --app news --name sale \\
          --payload sale.json --tokens tokens.csv --start --watch

      Exit status: 0 done, 1 a watched campaign did not finish, 2 the service refuses the request, 3 it cannot be \
      reached.
      """,
    subcommands: [
      CampaignCreateCommand.self, List.self, CampaignWatchCommand.self, Start.self, Pause.self, Resume.self,
      Cancel.self, Account.self, Outcomes.self,
    ])

  /// A campaign of an app of a running service.
  struct Named: ParsableArguments {
    @OptionGroup var service: ServiceOptions
    @Option(help: "The app's id.") var app: String
    @Argument(help: "The campaign's id.") var id: String

    var path: String { CampaignCommand.path(app, id) }

    /// - Parameter done: what the service did, behind "The campaign … ".
    func act(_ action: String, _ done: String) async throws {
      let campaign = try await service.client().send(.post("\(path):\(action)")).decoded(ServiceCampaign.self)
      StandardStream.output.writeLine("The campaign \(campaign.title) \(done); \(campaign.standing)")
    }
  }

  static func path(_ app: String, _ id: String) -> String {
    "/v1/apps/\(app.asPathSegment)/campaigns/\(id.asPathSegment)"
  }

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Lists the campaigns of an app, the newest first.")

    @OptionGroup var service: ServiceOptions
    @Option(help: "The app's id.") var app: String
    @Option(help: "The most campaigns to list.") var limit = 20
    @Flag(help: "The service's own JSON.") var json = false

    func validate() throws {
      guard (1...1000).contains(limit) else { throw ValidationError("--limit must be from 1 to 1000.") }
    }

    func run() async throws {
      let path = "/v1/apps/\(app.asPathSegment)/campaigns"
      let reply = try await service.client().send(.get(path, query: [("limit", String(limit))]))
      guard !json else { return StandardStream.output.writeLine(String(decoding: reply.body, as: UTF8.self)) }
      let campaigns = try reply.decoded(ServiceCampaign.List.self).items
      let stream = StandardStream.output
      let lines =
        stream.isTerminal
        ? ServiceCampaign.lines(campaigns, columns: stream.columnCount) : ServiceCampaign.table(campaigns)
      for line in lines { stream.writeLine(line) }
    }
  }

  struct Start: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Starts a campaign, now or at its time.")
    @OptionGroup var campaign: Named
    func run() async throws { try await campaign.act("start", "is started") }
  }

  struct Pause: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Stops a campaign until it is resumed. What was read before is still sent.")
    @OptionGroup var campaign: Named
    func run() async throws { try await campaign.act("pause", "is paused") }
  }

  struct Resume: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Resumes a paused campaign.")
    @OptionGroup var campaign: Named
    func run() async throws { try await campaign.act("resume", "is resumed") }
  }

  struct Cancel: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Ends a campaign for good. What was not sent counts as cancelled.")
    @OptionGroup var campaign: Named
    func run() async throws { try await campaign.act("cancel", "is cancelled") }
  }

  struct Account: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Shows what became of a campaign's notifications.")

    @OptionGroup var campaign: Named
    @Flag(help: "The account as JSON, as carillon send --json prints it.") var json = false

    func run() async throws {
      let reply = try await campaign.service.client().send(.get("\(campaign.path)/account"))
      let text = String(decoding: reply.body, as: UTF8.self)
      guard !json else { return StandardStream.output.writeLine(text) }
      let account = try reply.decoded(AccountJSON.File.self).snapshot
      StandardStream.output.writeLine(AccountTable.text(account))
    }
  }

  struct Outcomes: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Prints everything that was not accepted, as CSV.")

    @OptionGroup var campaign: Named

    func run() async throws {
      try await campaign.service.client().download(.get("\(campaign.path)/outcomes.csv")) { bytes in
        if let problem = StandardStream.output.write(bytes) {
          throw ServiceFailure("The list cannot be written: \(problem).")
        }
      }
    }
  }
}
