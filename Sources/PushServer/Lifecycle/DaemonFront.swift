internal import PushService
internal import ServiceLifecycle
internal import UnixSignals

extension Daemon {
  /// What the services of one run share.
  struct Parts: Sendable {
    let campaigns: CampaignRunner
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
    /// Called with the ports of the bridge, once.
    var bridgeListens: @Sendable (_ gateway: Int, _ feedback: Int?) -> Void = { _, _ in }
    /// Those that end the service gracefully.
    var endSignals: [UnixSignal] = []
    /// Those that let it read its configuration again.
    var reloadSignals: [UnixSignal] = []
  }
}
