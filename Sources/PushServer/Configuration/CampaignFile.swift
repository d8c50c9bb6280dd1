package import Carillon
package import PushSend
package import PushWire

/// One entry of a campaign file: an app, a payload and the recipients.
package struct CampaignEntry: Hashable, Sendable {
  package var app: String
  package var payload: String
  /// A token file; `-` is standard input.
  package var tokens: String
  package var expiration: PushNotification.Expiration?
  /// 10 or 5, or 1 over HTTP/2.
  package var priority: UInt8?
  /// HTTP/2 only, like ``collapseIdentifier``. Nil: the app's.
  package var pushType: PushType?
  package var collapseIdentifier: String?

  package init(
    app: String, payload: String, tokens: String, expiration: PushNotification.Expiration? = nil, priority: UInt8? = nil
  ) {
    (self.app, self.payload, self.tokens, self.expiration, self.priority) = (app, payload, tokens, expiration, priority)
  }

  /// Reads a campaign file: a YAML list of `{app, payload, tokens, expiration?, priority?,
  /// push-type?, collapse-id?}`. Relative paths start at the file's folder.
  ///
  /// - Parameter apps: The ids of the configuration's apps.
  package static func read(file: String, apps: [String]) throws(ConfigurationError) -> [CampaignEntry] {
    try read(YAMLNode.read(file: file), apps: apps)
  }

  package static func parse(_ text: String, file: String, apps: [String]) throws(ConfigurationError) -> [CampaignEntry]
  {
    try read(YAMLNode.parse(text, file: file), apps: apps)
  }

  private static func read(_ node: YAMLNode, apps: [String]) throws(ConfigurationError) -> [CampaignEntry] {
    guard case .list(let nodes) = node.content, !nodes.isEmpty else {
      throw node.error(
        "a campaign file is a list, each entry as in \"- { app: news, payload: news.json, tokens: news.csv }\"")
    }
    var entries: [CampaignEntry] = []
    let known = Set(apps)
    for node in nodes {
      var reader = try YAMLReader(node)
      let app = try reader.require("app", example: apps.first ?? "news")
      let name = try app.text()
      guard known.contains(name) else {
        let advice =
          Suggestion.nearest(to: name, in: apps).map { "did you mean \"\($0)\"?" }
          ?? "it has \(apps.joined(separator: ", "))"
        throw app.error("is \(name.cited), which the configuration does not have; \(advice)")
      }
      var entry = CampaignEntry(
        app: name, payload: try reader.require("payload", example: "news.json").filePath(),
        tokens: try tokens(reader.require("tokens", example: "news.csv")))
      if let value = reader.take("expiration") {
        guard let expiration = PushNotification.Expiration(parsing: try value.text()) else {
          throw value.error("must be seconds from now, a duration such as 2h, or a UNIX time")
        }
        entry.expiration = expiration
      }
      if let value = reader.take("priority") {
        guard let priority = UInt8(try value.text()), PushPriority(rawValue: priority) != nil else {
          throw value.error("must be 5 or 10, or 1 where the app's transport is http2, not \(try value.text().cited)")
        }
        entry.priority = priority
      }
      entry.pushType = try reader.take("push-type")?.choice(PushType.self)
      entry.collapseIdentifier = try reader.take("collapse-id")?.text()
      try reader.finish()
      if entry.tokens == "-", entries.contains(where: { $0.tokens == "-" }) {
        throw node.error("reads standard input, like an earlier entry; only one entry can")
      }
      entries.append(entry)
    }
    return entries
  }

  private static func tokens(_ node: YAMLNode) throws(ConfigurationError) -> String {
    try node.text() == "-" ? "-" : node.filePath()
  }
}

extension SendPlan {
  /// Reads a campaign file and the payloads that it names.
  ///
  /// - Parameter configuration: Has the apps of the entries. Apps that no entry names are left out.
  package static func read(
    campaign file: String, configuration: DeploymentConfiguration, journal: JournalPlan?
  ) throws(CarillonError) -> SendPlan {
    let listed = try describingErrors { try CampaignEntry.read(file: file, apps: configuration.apps.map(\.id)) }
    let entries = try listed.map { listed throws(CarillonError) in
      var entry = try SendPlan.Entry(app: listed.app, payloadFile: listed.payload, tokens: listed.tokens)
      entry.notification.expiration = listed.expiration
      entry.notification.priority = listed.priority.flatMap(PushNotification.Priority.init(rawValue:))
      entry.notification.pushType = listed.pushType.map(PushNotification.PushType.init(wire:))
      entry.notification.collapseID = listed.collapseIdentifier
      return entry
    }
    let used = Set(listed.map(\.app))
    return SendPlan(apps: configuration.apps.filter { used.contains($0.id) }, entries: entries, journal: journal)
  }
}
