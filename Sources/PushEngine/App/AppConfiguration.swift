package import PushWire

/// One app: its topic's rules. What it connects to and with which credential is the dialer's business.
package struct AppConfiguration: Sendable {
  package var id: String
  /// The frame layout. Default 2; 1 and 0 for gateways that need them.
  package var command = Command.framed
  /// Connections the pool may have, from `min` (opened on demand, kept) to `max` (when the others cannot keep up). Default 1…8.
  package var connections = 1...8
  /// A batch is written when it has so many bytes. Default 64 KiB.
  package var batchByteCount = 65_536
  /// Or when its oldest frame has waited so long. Default 5 ms.
  package var batchDelay = Duration.milliseconds(5)
  package var policy = LanePolicy()
  /// Notifications per second; nil for no limit.
  package var rateLimit: Double?
  /// New connections per minute, over all lanes, as a rate with a burst of a quarter of it. Default 3000: enough for a campaign in which one token
  /// in a thousand is refused, few enough that no failure becomes a flood.
  package var connectionsPerMinute = 3_000.0
  /// Attempts before an app that never reached its gateway gives up. Default 3.
  package var dialAttempts = 3
  /// How long an app that did reach its gateway keeps trying without any progress. Default 5 min.
  package var patience = Duration.seconds(300)
  /// Told of every batch and settlement of the app's lanes; nil: nobody. For measuring.
  package var observer: (any LaneObserver)?

  package init(id: String) {
    self.id = id
  }
}
