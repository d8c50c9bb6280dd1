internal import Carillon
internal import Hummingbird
internal import PushService
internal import PushStore
internal import PushWire
internal import Synchronization

extension CampaignRoutes {
  func addEvents(to router: Router<ControlContext>) {
    router.get("v1/apps/{app}/campaigns/{id}/events", use: getEvents)
    router.get("v1/events", use: getAllEvents)
  }

  /// What happens to one campaign, until it has ended.
  private func getEvents(_ request: Request, _ context: ControlContext) async throws -> Response {
    let (app, grant) = try await readGrant(request, context)
    let id = try await campaign(context, of: app).id
    let log = Mutex(CampaignEventLog())
    return events(context) { [reports] elapsed in
      if log.withLock({ $0.hasEnded }) { return nil }
      guard try await grant.isValid() else { return nil }
      guard let record = try await reports.controller.store.campaignHead(id), record.app == app.id else { return nil }
      let report = try await reports.report(record)
      return log.withLock { $0.text(report, now: elapsed) }
    }
  }

  /// What happens to all campaigns and apps that the key sees.
  private func getAllEvents(_ request: Request, _ context: ControlContext) async throws -> Response {
    let grant = Grant(try await access.caller(request, context, .read), access.keys, scope: .read)
    let follower = CampaignFollower(reports: reports)
    return events(context) { elapsed in
      let caller: Caller
      do { caller = try await grant.demand() } catch is Problem { return nil }
      return try await follower.text(now: elapsed, reach: caller.reach)
    }
  }

  private func events(
    _ context: ControlContext, _ next: @escaping @Sendable (_ elapsed: Duration) async throws -> String?
  ) -> Response { EventStream(isOpen: isOpen, channel: context.channel, clock: controller.clock).response(next) }
}

/// Follows every campaign that has not ended, and every app.
private final class CampaignFollower: Sendable {
  private struct AppView: Hashable {
    var state: AppStatusSnapshot.State
    /// Why it is suspended or has stopped.
    var reason: String?
  }

  private struct State {
    var logs: [StoredUUID: CampaignEventLog] = [:]
    var apps: [String: AppView] = [:]
  }

  private let reports: CampaignReports
  private let state = Mutex(State())

  init(reports: CampaignReports) { self.reports = reports }

  /// - Parameter reach: the apps that the follower may see at present.
  func text(now: Duration, reach: AppReach) async throws -> String {
    var text = ""
    for app in reports.deployment.apps where reach.contains(app.id) {
      let (appState, reason) = app.state
      let view = AppView(state: appState, reason: reason)
      let isNew = state.withLock { state in
        // A new follower assumes that the app runs.
        state.apps.updateValue(view, forKey: app.id) ?? AppView(state: .running) != view
      }
      guard isNew else { continue }
      let data = JSONValue.object([
        JSONMember("app", .string(app.id)), JSONMember("state", .string(view.state.rawValue)),
        JSONMember("reason", reason.map { .string($0) } ?? .null),
      ])
      let isAlarming = [.suspended, .stopped].contains(view.state)
      text += EventStream.text(isAlarming ? "alarm" : "state", String(decoding: data.encoded, as: UTF8.self))
    }
    let open = try await reports.controller.store.openCampaigns(of: reach, in: nil, limit: nil)
    let known = state.withLock { Set($0.logs.keys) }
    var records = open
    for id in known.subtracting(open.map(\.id)) {
      let record = try await reports.controller.store.campaignHead(id)
      if let record, reach.contains(record.app) { records.append(record) }
    }
    try await reports.forEach(of: records) { report in
      let id = report.record.id
      text += state.withLock { state in
        let news = state.logs[id, default: CampaignEventLog()].text(report, now: now)
        if state.logs[id]?.hasEnded == true { state.logs[id] = nil }
        return news
      }
    }
    return text
  }
}

extension CampaignEventLog {
  /// The text of the events that lead to a campaign's present state.
  mutating func text(_ report: CampaignReport, now: Duration) -> String {
    let progress = JSONValue.object(report.progress)
    let view = View(
      state: report.record.status, reason: report.record.reason,
      progress: String(decoding: progress.encoded, as: UTF8.self), hasEnded: report.record.endedAt != nil)
    return events(view, now: now).map { event in
      var members = [
        JSONMember("id", .string(report.record.id.text)), JSONMember("app", .string(report.record.app)),
        JSONMember("state", .string(view.state.rawValue)),
      ]
      if !view.reason.isEmpty { members.append(JSONMember("reason", .string(view.reason))) }
      if [.snapshot, .progress, .end].contains(event) { members.append(JSONMember("progress", progress)) }
      return EventStream.text(event.rawValue, String(decoding: JSONValue.object(members).encoded, as: UTF8.self))
    }.joined()
  }
}
