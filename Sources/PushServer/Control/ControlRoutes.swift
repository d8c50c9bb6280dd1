internal import Hummingbird
internal import PushStore

/// The control interface, version 1: every subject adds its addresses.
struct ControlRoutes: Sendable {
  let access: ControlAccess
  let store: any Store
  let book: OutcomeBook
  let intake: IntakeLimit
  let metrics: RequestMetrics
  /// Nil: the service has none.
  let bridge: Bridge?

  var responder: ControlResponder<RouterResponder<ControlContext>> {
    let router = Router(context: ControlContext.self)
    NotificationRoutes(access: access, store: store, book: book, intake: intake).add(to: router)
    FeedbackRoutes(access: access, store: store).add(to: router)
    AppRoutes(access: access, store: store).add(to: router)
    BridgeRoutes(access: access, store: store, bridge: bridge).add(to: router)
    return ControlResponder(router: router.buildResponder(), metrics: metrics)
  }
}
