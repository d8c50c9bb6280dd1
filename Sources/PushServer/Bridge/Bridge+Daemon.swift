internal import Carillon
internal import Logging
internal import PushService
internal import PushStore
internal import PushWire

extension Bridge {
  /// The bridge of a service; nil if its configuration has none.
  ///
  /// - Throws: a certificate cannot be used.
  static func make(
    _ configuration: ServerConfiguration, deployment: Deployment, outcomes: OutcomeRecorder, store: any Store,
    clock: any ServiceClock, logger: Logger
  ) throws(CarillonError) -> Bridge? {
    guard let settings = configuration.bridge else { return nil }
    let bridge = try Bridge(
      settings, tenants: configuration.tenants, deployment: deployment, outcomes: outcomes, store: store,
      clock: clock, logger: logger)
    outcomes.tell(bridge.apps)
    if settings.minimumTLS < .tls12 {
      logger.warning(
        "the bridge accepts old versions of TLS, which others can read and change",
        metadata: ["minimum-tls": "\(settings.minimumTLS.rawValue)"])
    }
    return bridge
  }
}

extension Daemon.Ports {
  /// What `carillon serve --json` prints when it serves.
  package var readyJSON: String {
    return JSONWriter.text { json in
      json.field("event", "ready")
      json.field("api", api)
      json.field("admin", admin)
      if let bridge { json.field("bridge", bridge) }
      if let bridgeFeedback { json.field("bridgeFeedback", bridgeFeedback) }
    }
  }
}
