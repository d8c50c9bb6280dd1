package import Carillon
internal import Foundation
internal import PushService
package import PushStore

/// An app of `carillon serve`: its configuration, and what only the service needs. All of the
/// latter counts at once when the file is read again.
package struct Tenant: Hashable, Sendable {
  package var app: AppConfiguration
  /// `queue: { bytes }`: payloads that wait to be acknowledged. Default 16 MiB.
  package var queueByteCount = 16 << 20
  /// `durability`: what holds a notification when its request is answered: `node`, the journal of
  /// this machine, or `cluster`, the database as well, so that other machines can send it.
  package var isShared = false
  /// `connections: { total }`: of all nodes together. Nil: each has its own `min` and `max`.
  package var connectionTotal: Int?
  /// `bridge: { clients }`: certificates of the app's clients over the binary protocol, each a file
  /// or `sha256:` with the fingerprint.
  package var bridgeClients: [String] = []
  /// `time-zone`: for quiet hours, and for devices without a time zone. Nil: UTC.
  package var timeZone: String?
  /// `quiet-hours`, such as `22:00-08:00`. Nil: none.
  package var quietHours: String?
  /// `audiences: { bytes }`: uploads of unforgotten campaigns. Default 8 GiB: 100 million tokens.
  package var audienceByteCount = 8 << 30
  /// `campaigns: { unfinished }`: campaigns that have not ended, drafts included. Default 500.
  package var openCampaignCount = 500
  /// `feedback: { every }`: how often feedback is read (binary). Zero: never. Default: daily.
  package var feedbackInterval = Duration.seconds(86_400)
  /// `caps`: how many campaigns each user may get in a time. Default: any number.
  package var caps: [FrequencyCap] = []
  /// `holdout-percent`: of users, who get none of its campaigns. Nil: all get them.
  package var holdoutPercent: Int?
  /// Where its outcomes are delivered. Nil: nowhere.
  package var webhook: Webhook?

  package init(_ app: AppConfiguration) { self.app = app }

  /// The longest time of a cap.
  static let capLimit = Duration.seconds(31 * 86_400)

  package var id: String { app.id }

  /// The key whose value has a meaning only where several machines share the store; nil: none has.
  var keyOfSeveralNodes: String? {
    isShared ? "durability: cluster" : connectionTotal.map { "connections: { total: \($0) }" }
  }

  /// The keys of the file that only a service reads.
  static let keys = [
    "bridge.clients", "time-zone", "quiet-hours", "audiences.bytes", "campaigns.unfinished", "queue.bytes",
    "feedback.every", "webhook", "caps", "holdout-percent", "durability", "connections.total",
  ]
}

extension Tenant {
  /// - Parameter proxy: of an app that says nothing of one.
  init(_ node: YAMLNode, proxy: AppConfiguration.Proxy?) throws(ConfigurationError) {
    var sections = try YAMLSections(node)
    self.init(try AppConfiguration(&sections, proxy: proxy))
    for key in Self.keys { if let value = try sections.take(key) { try read(key, value) } }
    try sections.finish()
  }

  private mutating func read(_ key: String, _ value: YAMLNode) throws(ConfigurationError) {
    switch key {
    case "bridge.clients":
      for client in try value.list() {
        let text = try client.text()
        bridgeClients.append(BridgeDirectory.isDigest(text) ? text : try client.filePath())
      }
    case "time-zone": timeZone = try value.timeZone()
    case "quiet-hours": quietHours = try value.quietHours()
    case "audiences.bytes": audienceByteCount = try value.byteCount(in: 64 << 10...1 << 50)
    case "campaigns.unfinished": openCampaignCount = try value.integer(in: 1...10_000)
    case "queue.bytes": queueByteCount = try value.byteCount(in: 64 << 10...4 << 30)
    case "feedback.every":
      guard !app.transport.isHTTP2 else {
        throw value.error("does not fit transport: http2, because only the binary protocol has it; leave it out")
      }
      feedbackInterval =
        try value.text() == "never" ? .zero : try value.duration(in: .seconds(1) ... .seconds(30 * 86_400))
    case "webhook": webhook = try Webhook(value)
    case "caps": caps = try value.caps()
    case "durability": isShared = try value.choice(Durability.self) == .cluster
    case "connections.total": connectionTotal = try value.integer(in: 1...100_000)
    case "holdout-percent": holdoutPercent = try value.integer(in: CampaignPlan.holdoutRange)
    default: break
    }
  }
}

private enum Durability: String, CaseIterable { case node, cluster }

extension YAMLNode {
  /// The name of a time zone.
  fileprivate func timeZone() throws(ConfigurationError) -> String {
    let name = try text()
    guard TimeZone(identifier: name) != nil else {
      throw error("must be a time zone, such as Europe/Berlin, not \(name.cited)")
    }
    return name
  }

  fileprivate func caps() throws(ConfigurationError) -> [FrequencyCap] {
    let nodes = try list()
    guard nodes.count <= 4 else { throw error("has \(nodes.count) caps; at most 4 can be kept") }
    var caps: [FrequencyCap] = []
    for node in nodes {
      var reader = try YAMLReader(node)
      guard let per = reader.take("per"), let count = reader.take("count") else {
        throw node.error("must be a time and a number, as in { per: 24h, count: 3 }")
      }
      let span = try per.duration(in: .seconds(60)...Tenant.capLimit)
      caps.append(
        FrequencyCap(span: span.components.seconds * 1_000, count: try count.integer(in: 1...1_000)))
      try reader.finish()
    }
    return caps
  }

  fileprivate func quietHours() throws(ConfigurationError) -> String {
    let text = try text()
    guard let hours = QuietHours(text) else {
      throw error("must be hours of the day, as in \"22:00-08:00\", not \(text.cited)")
    }
    return hours.description
  }
}

extension CampaignTimes.App {
  init(_ tenant: Tenant?) {
    self.init()
    isConfigured = tenant != nil
    zone = tenant?.timeZone.flatMap { TimeZone(identifier: $0) } ?? .gmt
    quietHours = tenant?.quietHours.flatMap { QuietHours($0) }
    audienceByteLimit = tenant.map { Int64($0.audienceByteCount) } ?? .max
    openCampaignLimit = tenant?.openCampaignCount ?? .max
    (caps, holdoutPercent) = (tenant?.caps ?? [], tenant?.holdoutPercent)
  }
}
