package import Carillon
internal import PushEngine
internal import PushTransport
package import PushWire

extension SendPlan {
  /// The plan that continues what a journal holds, after checking that the files of its campaigns
  /// have not changed. Nil when there is nothing to resume.
  ///
  /// - Parameters:
  ///   - onUnknown: replaces the setting that the campaigns began with.
  ///   - configuration: settings of apps that have changed since.
  ///   - configurationFile: the file of the configuration, for errors.
  package static func resuming(
    _ opened: SendJournal, journal: JournalPlan, onUnknown: LanePolicy.OnUnknown?,
    configuration: DeploymentConfiguration?, configurationFile: String?
  ) throws -> SendPlan? {
    let apps = configuration?.apps ?? []
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
        plan.ended.append(Ended(app: context.app.id, tokens: context.tokensName, campaign: campaign))
        continue
      }
      if let app = plan.configuration(context.app.id),
        let difference = Self.difference(of: app, from: context.app, campaign.headers)
      {
        changed.append(difference)
      }
      try check(context.payloadFile, context.payload)
      try check(context.tokensFile, tokens)
      var entry = try Entry(app: context.app.id, payloadFile: context.payloadFile, tokens: context.tokensFile)
      entry.tokensName = context.tokensName
      let settledLines =
        context.outcomes == nil
        ? nil : SettledLines(of: campaign, recoveredRuns: opened.journal.recoveredRuns(of: campaign.number))
      entry.resumed = Resumed(
        campaign: campaign, mark: campaign.mark.offset == 0 ? nil : campaign.mark, settledLines: settledLines)
      plan.entries.append(entry)
    }
    if let configurationFile, !apps.contains(where: { plan.configuration($0.id) != nil }) {
      // It would change nothing, so it was given by mistake.
      let quoted = plan.apps.map { "\"\($0.id)\"" }.joined(separator: ", ")
      let present = apps.map(\.id).joined(separator: ", ")
      throw CarillonError(
        .configuration,
        "\(configurationFile) has no app \(quoted), which the campaign in the journal \(opened.directory) sends "
          + "through; it has \(present). Use a configuration with that app, or none")
    }
    guard changed.isEmpty else { throw CarillonError(.journalContent, changed.joined(separator: "; ")) }
    for entry in plan.entries {
      if let campaign = entry.resumed?.campaign { try opened.readTokens(of: campaign, isCompared: true) }
    }
    return plan
  }

  /// How the headers of what is still to be sent would differ from what was sent; nil: not at all.
  private static func difference(
    of app: AppConfiguration, from before: AppConfiguration, _ headers: ProviderHeaders?
  ) -> String? {
    guard app.transport.name == before.transport.name else {
      return "the app \(app.id) has the transport \(app.transport.name.rawValue) now, had "
        + "\(before.transport.name.rawValue) when the campaign began"
    }
    guard let headers, let topic = app.topic, let begun = headers.topic,
      headers.pushType.topic(for: topic) != begun, app.topic != before.topic
    else { return nil }
    return "the app \(app.id) has the topic \(topic) now, and the campaign began with \(begun)"
  }
}
