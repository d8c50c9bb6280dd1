internal import ArgumentParser
internal import Carillon
internal import PushTransport
internal import PushWire

/// Broadcast channels of Live Activities (HTTP2ProviderAPI.md, section 6).
struct ChannelCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "channel", abstract: "Manages the broadcast channels of Live Activities.",
    discussion: """
      A broadcast goes to everyone who follows a channel, as one request:

        carillon channel create --store last --topic com.example.news \\
          --token-key AuthKey_ABC123DEFG.p8 --team-id DEF123GHIJ
        carillon send --transport http2 --environment production \\
          --channel dHN0LXNyY2gtY2hubA== --expiration 1h --payload goal.json \\
          --topic com.example.news \\
          --token-key AuthKey_ABC123DEFG.p8 --team-id DEF123GHIJ

      Exit status: 0 it was done, 1 the service refused it, 2 wrong flags or files, 3 the service could not be asked.
      """, subcommands: [Create.self, List.self, Read.self, Delete.self])

  /// `message-storage-policy`.
  enum Store: String, CaseIterable, ExpressibleByArgument {
    case none, last
    var storage: ChannelService.Storage { self == .none ? .none : .last }
  }

  struct Create: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Makes a channel, and prints its identifier.",
      discussion: "  carillon channel create --config carillon.yaml --app news --store last\n\nAn app can have "
        + "10,000 channels in an environment.")

    @Option(
      help: .init(
        "Whether devices that are away get the most recent broadcast later (last), or none; to a channel that "
          + "stores none, --expiration must be 0.", valueName: "none|last")) var store = Store.last
    @OptionGroup var options: ChannelOptions

    func run() async throws {
      try options.check()
      let channel = try await options.service().create(storing: store.storage)
      ChannelCommand.show(channel, options) { $0.field("store", store.rawValue) }
    }
  }

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Prints the identifiers of all channels of an app, one a line.",
      discussion: "  carillon channel list --config carillon.yaml --app news")

    @OptionGroup var options: ChannelOptions

    func run() async throws {
      try options.check()
      let channels = try await options.service().list()
      guard options.json else {
        if !channels.isEmpty { StandardStream.output.writeLine(Self.lines(channels)) }
        return
      }
      var json = JSONWriter()
      json.object { $0.field("channels", channels) }
      StandardStream.output.writeLine(json.text)
    }

    /// One line each, whatever the service calls them.
    static func lines(_ channels: [String]) -> String { channels.map { $0.escapedForTerminal }.joined(separator: "\n") }
  }

  struct Read: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Says whether a channel is there, and what it stores.",
      discussion: "  carillon channel read dHN0LXNyY2gtY2hubA== --config carillon.yaml --app news")

    @Argument(help: "The channel's identifier.") var channel: String
    @OptionGroup var options: ChannelOptions

    func run() async throws {
      try options.check()
      let store = try await options.service().storage(of: channel) == .none ? Store.none : .last
      if options.json { return ChannelCommand.show(channel, options) { $0.field("store", store.rawValue) } }
      let what =
        store == .none ? "nothing: a broadcast reaches the devices that are there" : "the most recent broadcast"
      StandardStream.output.writeLine("\(channel.escapedForTerminal) stores \(what)")
    }
  }

  struct Delete: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Deletes a channel; whoever follows it gets nothing any more.",
      discussion: "  carillon channel delete dHN0LXNyY2gtY2hubA== --config carillon.yaml --app news")

    @Argument(help: "The channel's identifier.") var channel: String
    @OptionGroup var options: ChannelOptions

    func run() async throws {
      try options.check()
      try await options.service().delete(channel)
      if options.json { ChannelCommand.show(channel, options) { $0.field("deleted", true) } }
    }
  }

  /// The identifier on a line of its own, so that a shell can take it; or an object.
  fileprivate static func show(_ channel: String, _ options: ChannelOptions, more: (inout JSONWriter) -> Void) {
    guard options.json else { return StandardStream.output.writeLine(channel.escapedForTerminal) }
    var json = JSONWriter()
    json.object {
      $0.field("channel", channel)
      more(&$0)
    }
    StandardStream.output.writeLine(json.text)
  }
}
