internal import Hummingbird
internal import PushService
internal import PushStore

/// The control interface, version 1: every subject adds its addresses.
struct ControlRoutes: Sendable {
  let access: ControlAccess
  let store: any Store
  let outcomes: OutcomeRecorder
  let feed: OutcomeFeed
  let intake: IntakeLimit
  let campaigns: CampaignRunner
  let reload: @Sendable () async -> ReloadReport
  let metrics: RequestMetrics
  let bridge: Bridge?
  let dashboard: Dashboard
  let channels: OpenChannels
  let membership: NodeMembership
  let events: EventLog
  let program: ProgramFacts

  var responder: ControlResponder {
    let router = ControlResponder.router
    router.add(middleware: ParameterCheck())
    router.add(
      middleware: KeyShareCheck(
        access: access, shares: KeyShares(maxConnections: access.settings.maxConnections), channels: channels,
        sessions: dashboard.sessions))
    router.add(
      middleware: Idempotency(access: access, store: store) { [membership] in membership.current })
    let notifications = NotificationRoutes(access: access, store: store, outcomes: outcomes, intake: intake)
    notifications.add(to: router)
    router.add(middleware: CommonPool())
    router.add(
      middleware: Trail(clock: access.clock, events: events) { [sessions = dashboard.sessions] in
        await sessions.keyID(of: $0)
      })
    OutcomeRoutes(access: access, feed: feed, isOpen: intake.isOpen).add(to: router)
    let devices = DeviceRoutes(access: access, store: store, census: dashboard.census)
    devices.add(to: router)
    UserRoutes(devices: devices).add(to: router)
    if let file = store.file { StoreRoutes(access: access, path: file).add(to: router) }
    FeedbackRoutes(access: access, store: store).add(to: router)
    ChannelRoutes(access: access).add(to: router)
    ActivityRoutes(notifications: notifications).add(to: router)
    CampaignRoutes(
      access: access, runner: campaigns, reports: dashboard.reports, intake: intake
    ).add(to: router)
    AppRoutes(access: access, store: store, statistics: dashboard.statistics, membership: membership).add(to: router)
    BridgeRoutes(access: access, store: store, bridge: bridge).add(to: router)
    DescriptionRoutes(access: access, program: program).add(to: router)
    NodeRoutes(access: access, membership: membership).add(to: router)
    AuditRoutes(access: access, store: store).add(to: router)
    ReloadRoutes(access: access, reload: reload).add(to: router)
    DashboardRoutes(dashboard: dashboard).add(to: router)
    return ControlResponder(router, metrics: metrics, clock: access.clock)
  }
}
