internal import Hummingbird
internal import PushStore

/// The control interface, version 1: every subject adds its addresses.
struct ControlRoutes: Sendable {
  let access: ControlAccess
  let store: any Store
  let book: OutcomeBook
  let intake: IntakeLimit
  let reload: @Sendable () async -> ReloadReport
  let metrics: RequestMetrics

  var responder: ControlResponder {
    let router = ControlResponder.router
    NotificationRoutes(access: access, store: store, book: book, intake: intake).add(to: router)
    FeedbackRoutes(access: access, store: store).add(to: router)
    AppRoutes(access: access, store: store).add(to: router)
    DescriptionRoutes().add(to: router)
    ReloadRoutes(access: access, reload: reload).add(to: router)
    return ControlResponder(router, metrics: metrics)
  }
}
