internal import ArgumentParser
internal import Carillon
internal import PushServer
internal import PushService
internal import PushStore
internal import PushWire

struct KeyCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "key", abstract: "Makes, lists and revokes keys of the push service.",
    subcommands: [Create.self, List.self, Revoke.self])

  struct Create: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Makes a key and prints it, once.",
      discussion: """
        Only a digest of it is stored. A running service knows the key within a second.

          carillon key create --config carillon.yaml --name billing \\
            --app news --scope send --scope read
        """)

    @Option(help: .init("The configuration of the service.", valueName: "file")) var config: String
    @Option(help: .init("Whom it is for.", valueName: "name")) var name: String
    @Option(help: .init("An app that it is for; may be repeated.", valueName: "id")) var app: [String] = []
    @Flag(help: "It is for all apps, also those that come later.") var allApps = false
    @Option(help: .init("What it may do; may be repeated (default: send, read).", valueName: "scope"))
    var scope: [Scope] = []
    @Flag(help: "One JSON object on standard output.") var json = false

    func validate() throws {
      guard allApps != !app.isEmpty else {
        throw ValidationError("say whom the key is for: --app ID, once for each of its apps, or --all-apps")
      }
    }

    func run() async throws {
      let configuration = try ServerFile.read(config)
      for app in app where !configuration.tenants.contains(where: { $0.id == app }) {
        throw CommandFailure.usage("the configuration \(config) has no app \"\(app)\"")
      }
      let keys = try KeyStore(configuration.store, besides: config)
      let key = try await keys.create(
        name: name, scopes: scope.isEmpty ? [.send, .read] : scope, reach: allApps ? .all : .only(Set(app)))
      try keys.close()
      let made = JSONWriter.text {
        $0.field("id", key.id)
        $0.field("key", key.text)
      }
      StandardStream.output.writeLine(json ? made : key.text)
    }
  }

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Lists keys, without their secrets.")

    @Option(help: .init("The configuration of the service.", valueName: "file")) var config: String

    func run() async throws {
      let keys = try KeyStore(try ServerFile.read(config).store, besides: config)
      let stored = try await keys.keys()
      try keys.close()
      let head = ["id", "name", "scopes", "apps", "created", "last used", "revoked"]
      let rows = stored.map { key in
        [
          key.id, key.name, key.scopes.joined(separator: " "), key.reach.text, InstantText.text(key.createdAt),
          key.lastUsedAt.map(InstantText.text) ?? "never", key.revokedAt.map(InstantText.text) ?? "",
        ]
      }
      let widths = head.indices.map { column in ([head] + rows).map { $0[column].count }.max() ?? 0 }
      for row in [head] + rows {
        let cells = zip(row, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }
        StandardStream.output.writeLine(cells.joined(separator: "  "))
      }
    }
  }

  struct Revoke: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Revokes a key. A running service refuses it within a second.")

    @Option(help: .init("The configuration of the service.", valueName: "file")) var config: String
    @Argument(help: "The key's id, as \"key list\" shows it.") var id: String

    func run() async throws {
      let keys = try KeyStore(try ServerFile.read(config).store, besides: config)
      let isRevoked = try await keys.revoke(id)
      try keys.close()
      guard isRevoked else { throw CommandFailure.usage("there is no key \(id) that could be revoked") }
    }
  }
}

extension Scope: ExpressibleByArgument {}
