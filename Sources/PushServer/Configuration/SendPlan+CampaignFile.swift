package import Carillon
internal import PushEngine

extension SendPlan {
  /// Reads a campaign file and the payloads that it names.
  ///
  /// - Parameter configuration: Has the apps of the entries. Apps that no entry names are left out.
  package static func read(
    campaign file: String, configuration: DeploymentConfiguration, journal: JournalPlan?
  ) throws(CarillonError) -> SendPlan {
    let listed = try describingErrors { try CampaignEntry.read(file: file, apps: configuration.apps.map(\.id)) }
    let entries = try listed.map { entry throws(CarillonError) in
      SendPlan.Entry(
        app: entry.app, payloadFile: entry.payload, template: try PayloadTemplate.read(file: entry.payload),
        tokens: entry.tokens, expiration: entry.expiration, priority: entry.priority,
        overrides: HeaderOverrides(pushType: entry.pushType, collapseIdentifier: entry.collapseIdentifier))
    }
    let used = Set(listed.map(\.app))
    return SendPlan(apps: configuration.apps.filter { used.contains($0.id) }, entries: entries, journal: journal)
  }
}
