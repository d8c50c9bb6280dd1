internal import ArgumentParser
internal import Carillon
internal import PushTransport
internal import PushWire

/// Broadcast channels of Live Activities (HTTP2ProviderAPI.md, section 6).
struct ChannelCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "channel", abstract: "Manages the broadcast channels of Live Activities.",
    discussion: """
      A broadcast is one request; it goes to every device that follows the channel:

        carillon channel create --store last --topic com.example.news \\
          --token-key AuthKey_ABC123DEFG.p8 --team-id DEF123GHIJ
        carillon send --transport http2 --environment production \\
          --channel dHN0LXNyY2gtY2hubA== --expiration 1h --payload goal.json \\
          --topic com.example.news \\
          --token-key AuthKey_ABC123DEFG.p8 --team-id DEF123GHIJ

      Exit status: 0 it was done, 1 the service refused it, 2 wrong flags or files, 3 the service did not answer.
      """, subcommands: [Create.self, List.self, Read.self, Delete.self])

  private static func json(_ channel: String, stores storage: ChannelService.Storage) -> String {
    JSONWriter.text {
      $0.field("channel", channel)
      $0.field("store", storage.rawValue)
    }
  }

  struct Create: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Creates a channel, and prints its identifier.",
      discussion: "  carillon channel create --config carillon.yaml --app news --store last\n\nAn app can have "
        + "10,000 channels in an environment.")

    @Option(
      help: .init(
        "What devices that are offline get later: the most recent broadcast (last) or nothing (none). For a "
          + "channel with none, send with --expiration 0.", valueName: "none|last")) var store = ChannelService.Storage
      .last
    @OptionGroup var options: ChannelOptions

    func run() async throws {
      try options.check()
      let channel = try await options.ask { service throws(ChannelFailure) in try await service.create(storing: store) }
      // The identifier alone on its line, for use in a shell.
      StandardStream.output.writeLine(
        options.json ? ChannelCommand.json(channel, stores: store) : channel.escapedForTerminal)
    }
  }

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Prints the identifiers of all channels of an app, one per line.",
      discussion: "  carillon channel list --config carillon.yaml --app news")

    @OptionGroup var options: ChannelOptions

    func run() async throws {
      try options.check()
      let channels = try await options.ask { service throws(ChannelFailure) in try await service.list() }
      if options.json { return StandardStream.output.writeLine(JSONWriter.text { $0.field("channels", channels) }) }
      if !channels.isEmpty { StandardStream.output.writeLine(Self.lines(channels)) }
    }

    /// Control characters are escaped, so each identifier is one line.
    static func lines(_ channels: [String]) -> String { channels.map { $0.escapedForTerminal }.joined(separator: "\n") }
  }

  struct Read: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows whether a channel exists, and what it stores.",
      discussion: "  carillon channel read dHN0LXNyY2gtY2hubA== --config carillon.yaml --app news")

    @Argument(help: "The channel's identifier.") var channel: String
    @OptionGroup var options: ChannelOptions

    func run() async throws {
      try options.check()
      let storage = try await options.ask { service throws(ChannelFailure) in try await service.storage(of: channel) }
      if options.json { return StandardStream.output.writeLine(ChannelCommand.json(channel, stores: storage)) }
      let what =
        storage == .none ? "nothing: a broadcast reaches only devices that are online" : "the most recent broadcast"
      StandardStream.output.writeLine("\(channel.escapedForTerminal) stores \(what)")
    }
  }

  struct Delete: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Deletes a channel. Its followers get no more broadcasts.",
      discussion: "  carillon channel delete dHN0LXNyY2gtY2hubA== --config carillon.yaml --app news")

    @Argument(help: "The channel's identifier.") var channel: String
    @OptionGroup var options: ChannelOptions

    func run() async throws {
      try options.check()
      try await options.ask { service throws(ChannelFailure) in try await service.delete(channel) }
      guard options.json else { return }
      let text = JSONWriter.text {
        $0.field("channel", channel)
        $0.field("deleted", true)
      }
      StandardStream.output.writeLine(text)
    }
  }
}

extension ChannelService.Storage: ExpressibleByArgument {}
