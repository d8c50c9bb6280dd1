package import Carillon
internal import PushEngine
internal import PushTransport
package import PushWire

/// Makes a ``SendPlan`` from a journal, after checking that the campaign's files have not changed.
package struct ResumePlan {
  private let opened: SendJournal
  private let onUnknown: LanePolicy.OnUnknown?
  private let configuration: DeploymentConfiguration?
  private let configurationFile: String?

  /// - Parameters:
  ///   - onUnknown: replaces the setting that the campaigns began with.
  ///   - configuration: settings of apps that have changed since.
  ///   - configurationFile: the file of the configuration, for errors.
  package init(
    opened: SendJournal, onUnknown: LanePolicy.OnUnknown?, configuration: DeploymentConfiguration?,
    configurationFile: String?
  ) {
    self.opened = opened
    self.onUnknown = onUnknown
    self.configuration = configuration
    self.configurationFile = configurationFile
  }

  private var apps: [AppConfiguration] { configuration?.apps ?? [] }

  /// Nil when there is nothing to resume.
  package func plan(journal: SendPlan.JournalPlan) throws -> SendPlan? {
    let groups = Set(opened.report.unfinished.map(\.campaign.group))
    guard !groups.isEmpty else { return nil }
    var plan = SendPlan(apps: [], entries: [], journal: journal)
    var changed: [String] = []
    var checked: [String: FileFingerprint] = [:]
    func check(_ file: String, _ fingerprint: FileFingerprint) throws {
      guard checked.updateValue(fingerprint, forKey: file) != fingerprint else { return }
      if let difference = try fingerprint.difference(of: file) { changed.append(difference) }
    }
    for campaign in opened.report.campaigns.map(\.campaign) where groups.contains(campaign.group) {
      let (context, tokens) = try opened.context(of: campaign)
      if plan.configuration(context.app.id) == nil {
        var app = apps.first { $0.id == context.app.id } ?? context.app
        if let onUnknown { app.onUnknown = AppConfiguration.UnknownPolicy(wire: onUnknown) }
        plan.apps.append(app)
        plan.isNamedByTopic = context.isNamedByTopic
      }
      plan.outcomes = context.outcomes
      plan.gone = context.gone
      plan.begunAt = context.begunAt
      guard campaign.phase == .open else {
        plan.ended.append(SendPlan.Ended(app: context.app.id, tokens: context.tokensName, campaign: campaign))
        continue
      }
      if let app = plan.configuration(context.app.id),
        let difference = Self.difference(of: app, from: context.app, campaign.headers)
      {
        changed.append(difference)
      }
      try check(context.payloadFile, context.payload)
      try check(context.tokensFile, tokens)
      var entry = try SendPlan.Entry(
        app: context.app.id, payloadFile: context.payloadFile, tokens: context.tokensFile)
      entry.tokensName = context.tokensName
      let settledLines =
        context.outcomes == nil
        ? nil : SettledLines(of: campaign, recoveredRuns: opened.journal.recoveredRuns(of: campaign.number))
      entry.resumed = SendPlan.Resumed(
        campaign: campaign, mark: campaign.mark.offset == 0 ? nil : campaign.mark, settledLines: settledLines)
      plan.entries.append(entry)
    }
    try checkConfiguration(plan.apps.map(\.id))
    guard changed.isEmpty else {
      throw CarillonError(.journalContent, changed.joined(separator: "; "))
    }
    return plan
  }

  /// Throws if the configuration has none of the campaign's apps. It would change nothing, so it
  /// was given by mistake.
  private func checkConfiguration(_ needed: [String]) throws {
    guard let configurationFile, !apps.contains(where: { needed.contains($0.id) }) else { return }
    let quoted = needed.map { "\"\($0)\"" }.joined(separator: ", ")
    let present = apps.map(\.id).joined(separator: ", ")
    throw CarillonError(
      .configuration,
      "\(configurationFile) has no app \(quoted), which the campaign in the journal \(opened.directory) sends "
        + "through; it has \(present). Use a configuration with that app, or none")
  }

  /// How the headers of what is still to be sent would differ from what was sent; nil if they do
  /// not.
  private static func difference(
    of app: AppConfiguration, from before: AppConfiguration, _ headers: ProviderHeaders?
  ) -> String? {
    guard app.transport.name == before.transport.name else {
      return "the app \(app.id) has the transport \(app.transport.name.rawValue) now, had "
        + "\(before.transport.name.rawValue) when the campaign began"
    }
    guard let headers, let topic = app.topic, let begun = headers.topic,
      headers.pushType.topic(for: topic) != begun, app.topic != before.topic
    else {
      return nil
    }
    return "the app \(app.id) has the topic \(topic) now, and the campaign began with \(begun)"
  }
}
