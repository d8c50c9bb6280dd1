internal import ArgumentParser
internal import Carillon
internal import PushServer
internal import PushWire

struct WebhookCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "webhook", abstract: "Tries the receivers of outcomes.", subcommands: [Test.self])

  struct Test: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Delivers no outcome, and says how the receiver answers.",
      discussion: """
        The delivery is signed as all others are, and has an empty list of outcomes and the cursor "0". Nothing of a \
        running service changes.

          carillon webhook test --config carillon.yaml --app news

        Exit status: 0 every receiver has acknowledged it, 1 one has not, 2 wrong flags or configuration.
        """)

    @Option(help: .init("The configuration of the service.", valueName: "file")) var config: String
    @Option(help: .init("The app (default: every app with a webhook).", valueName: "id")) var app: String?
    @Flag(help: "One JSON object for each app on standard output.") var json = false

    func run() async throws {
      let configuration = try ServerFile.read(config)
      if let app, !configuration.tenants.contains(where: { $0.id == app }) {
        throw CommandFailure.usage("the configuration \(config) has no app \"\(app)\"")
      }
      let tenants = configuration.tenants.filter { $0.webhook != nil && (app ?? $0.id) == $0.id }
      guard !tenants.isEmpty else {
        let subject = app.map { "the app \"\($0)\"" } ?? config
        throw CommandFailure.usage("\(subject) has no webhook; add \"webhook: { url: https://…, secret-file: … }\"")
      }
      var isAcknowledged = true
      for tenant in tenants {
        guard let webhook = tenant.webhook else { continue }
        let result = await WebhookTrial.run(webhook, app: tenant.id)
        isAcknowledged = isAcknowledged && result.failure == nil
        StandardStream.output.writeLine(
          json ? Self.json(tenant.id, webhook, result) : Self.text(tenant.id, webhook, result))
      }
      guard isAcknowledged else { throw ExitStatus.findings }
    }

    private static func text(_ app: String, _ webhook: Webhook, _ result: WebhookTrial) -> String {
      guard let failure = result.failure else {
        return "\(app): \(webhook) has acknowledged with \(result.status) after \(milliseconds(result)) ms."
      }
      return "\(app): \(webhook) \(failure)".asSentence
    }

    private static func milliseconds(_ result: WebhookTrial) -> Int { Int(result.duration / .milliseconds(1)) }

    private static func json(_ app: String, _ webhook: Webhook, _ result: WebhookTrial) -> String {
      JSONWriter.text { json in
        json.field("app", app)
        json.field("receiver", "\(webhook)")
        if let failure = result.failure {
          json.field("failure", failure)
        } else {
          json.field("status", Int(result.status))
        }
        json.field("milliseconds", milliseconds(result))
      }
    }
  }
}
