internal import Carillon
internal import PushService
internal import PushStore
internal import PushTransport
internal import Synchronization

/// What this process says of itself to others that share its store.
final class NodeDescription: Sendable {
  private let deployment: Deployment
  private let statistics: ServiceStatistics
  private let facts: Mutex<NodeFacts>
  private let campaigns = Mutex<CampaignController?>(nil)

  init(_ deployment: Deployment, _ statistics: ServiceStatistics) {
    (self.deployment, self.statistics) = (deployment, statistics)
    var facts = NodeFacts()
    facts.version = ProgramFacts.version
    self.facts = Mutex(facts)
  }

  /// The settings that count at present.
  func note(_ tenants: [String: Tenant], retention: Duration) {
    let digest = Self.digest(tenants, retention: retention)
    facts.withLock { $0.configuration = digest }
  }

  /// Where the API listens, as a URL.
  func note(address: String) { facts.withLock { $0.address = address } }

  /// Those that this process conducts or carries.
  func note(_ campaigns: CampaignController) { self.campaigns.withLock { $0 = campaigns } }

  var current: NodeFacts {
    var facts = facts.withLock { $0 }
    let apps = deployment.apps.map { app in (id: app.id, figures: statistics.figures(of: app, app.status)) }
    facts.pendingCount = apps.reduce(0) { $0 + $1.figures.count(.pending) }
    let live = campaigns.withLock { $0 }?.all ?? []
    let campaigns = live.compactMap { live -> (id: StoredUUID, campaign: NodeStatus.Campaign)? in
      var campaign = NodeStatus.Campaign(pace: statistics.pace(live.id))
      (campaign.reason, campaign.until) = (live.quiet?.reason, live.quiet?.until.milliseconds)
      return campaign.pace > 0 || campaign.reason != nil ? (live.id, campaign) : nil
    }
    facts.status = NodeStatus(apps, campaigns).bytes
    return facts
  }

  /// The first hexadecimal digits of the SHA-256 of what must be the same on all nodes: apps and
  /// their settings, without the paths of files, and how long outcomes are kept.
  static func digest(_ tenants: [String: Tenant], retention: Duration) -> String {
    var text = "retention \(retention)\n"
    for tenant in tenants.values.sorted(by: { $0.id < $1.id }) {
      text += "app \(tenant.id)\n"
      for setting in AppSetting.all {
        if let value = setting.text(in: tenant.app) { text += "\(setting.key) \(value)\n" }
      }
      text += """
        credential \(tenant.app.credential.settings.keyIdentifier ?? "certificate")
        time-zone \(tenant.timeZone ?? "") quiet-hours \(tenant.quietHours ?? "")
        queue.bytes \(tenant.queueByteCount) audiences.bytes \(tenant.audienceByteCount)
        campaigns.unfinished \(tenant.openCampaignCount) feedback.every \(tenant.feedbackInterval)
        caps \(tenant.caps) holdout-percent \(tenant.holdoutPercent ?? 0) durability.cluster \(tenant.isShared)
        connections.total \(tenant.connectionTotal ?? 0)
        webhook \(tenant.webhook.map { "\($0)\($0.target)" } ?? "")

        """
    }
    return String(Digest.hexadecimal(Digest.sha256(Array(text.utf8))).prefix(digitCount))
  }

  private static let digitCount = 12
}
