internal import PushEngine
internal import PushTransport
internal import PushWire

/// An app that was removed while it held acknowledged notifications or a service's campaign. Its
/// engine stays, suspended, until the app comes back or the deployment ends; the journal has
/// everything too.
struct ParkedApp: Sendable {
  let entry: AppEntry
  let runtime: AppRuntime
}

extension AppRuntime {
  static let removalReason = "it was removed from its deployment"

  /// Ends everything except durably accepted notifications, which are sent as far as the time
  /// allows.
  ///
  /// - Returns: false if nothing of it is left.
  func park(within duration: Duration) async -> Bool {
    guard let intake else { return false }
    let emptied = intake.finish()
    if !app.hold.isHeld { await emptied.waitInAnyCase(atMost: duration, on: engine.loop) }
    // Nothing can begin any more if nothing of it is left.
    guard !emptied.isOpen || !runs.closeUnlessKept() else { return false }
    app.suspend(because: Self.removalReason)
    runs.cancelAll { !$0.isKept }
    return true
  }
}

extension AppConfiguration {
  /// Whether an engine that was made with the other configuration can continue with this one.
  func suitsEngine(of other: AppConfiguration) -> Bool { adopting(other) == other }
}
