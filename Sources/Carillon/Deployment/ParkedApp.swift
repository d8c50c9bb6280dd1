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

extension AppSettings {
  /// Whether an engine that was made with the other settings can continue with these.
  func suitsEngine(of other: AppSettings) -> Bool {
    var own = self
    own.credential = other.credential
    (own.rateLimit, own.weight, own.patience) = (other.rateLimit, other.weight, other.patience)
    return own == other
  }
}

extension AppConfiguration {
  /// With the credential and the limits of another one: what a running engine can change.
  func takingOver(_ other: AppConfiguration) -> AppConfiguration {
    var own = self
    own.credential = other.credential
    (own.rateLimit, own.weight, own.patience) = (other.rateLimit, other.weight, other.patience)
    return own
  }
}
