internal import PushService
internal import PushTransport
internal import ServiceLifecycle
internal import Synchronization
internal import UnixSignals

extension Daemon {
  /// What the services of one run share.
  struct Run: Sendable {
    let campaigns: CampaignRunner
    let alarms: AlarmWatch
    let reloading: Reloading
    /// The API's connections.
    let clients: OpenChannels
    /// Ends when everything is recovered.
    let opening: AsyncStream<Void>
    let opened: AsyncStream<Void>.Continuation
  }

  /// How a daemon is reached: over its listeners, or by calls of its responders in this process.
  struct Front: Sendable {
    /// Lets monitors in; nil: they call ``Daemon/adminResponder``.
    var admin: (any Service)?
    /// Calls ``Daemon/recover(_:)``, and lets clients in after that.
    var api: any Service
    /// Called with the ports of the bridge, each time that it listens.
    var bridgeListens: @Sendable (_ gateway: Int, _ feedback: Int?) -> Void = { _, _ in }
    /// Those that end the service gracefully.
    var endSignals: [UnixSignal] = []
    /// Those that let it read its configuration again.
    var reloadSignals: [UnixSignal] = []
  }

  /// Lets clients in over the listeners of the configuration, and signals of the system.
  func listening(_ run: Run, _ ready: @escaping @Sendable (Ports) -> Void) -> Front {
    let monitors = OpenChannels(
      OpenChannels.Limits(
        all: configuration.api.maxConnections, perAddress: configuration.api.addressConnections), clock: clock,
      logger: logger)
    let admin = listener(adminResponder, configuration.admin.listen, nil, .health, monitors) { [self] port in
      listens(ready) { $0.admin = port }
    }
    let api = listener(apiResponder(run), configuration.api.listen, certificate, .clients, run.clients) {
      [self] port in
      becomeReady()
      describe(api: port)
      listens(ready) { $0.api = port }
    } prepare: { [self] in
      try await recover(run)
    }
    return Front(
      admin: admin, api: api,
      bridgeListens: { [self] gateway, feedback in
        listens(ready) { ($0.bridge, $0.bridgeFeedback) = (gateway, feedback) }
      }, endSignals: [.sigterm, .sigint], reloadSignals: [.sighup])
  }

  /// - Parameter prepare: runs before it listens.
  private func listener(
    _ responder: ControlResponder, _ listen: Listen, _ certificate: ServerCertificate?, _ use: DescriptorReserve.Use,
    _ channels: OpenChannels, _ listens: @escaping @Sendable (Int) -> Void,
    prepare: @escaping @Sendable () async throws -> Void = {}
  ) -> ControlListener {
    listeners.withLock { $0.append(channels) }
    return ControlListener(
      responder, listen, configuration.api, certificate: certificate, use, channels: channels, reserve: reserve,
      drain: configuration.shutdown.drain, logger: logger, prepare: prepare, listens: listens)
  }

  private func listens(_ ready: (Ports) -> Void, _ note: (inout Ports) -> Void) {
    let open = ports.withLock { ports in
      note(&ports)
      return ports
    }
    guard open.api != 0, open.admin != 0, bridge == nil || open.bridge != nil || !membership.leads else { return }
    ready(open)
    manager?.notify(.ready, status: "Serving.")
  }
}
