package import Carillon
package import PushSend

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
