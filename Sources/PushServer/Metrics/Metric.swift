/// The metrics of the service.
///
/// Names and labels are an interface: alert rules and dashboards use them. No label has a value
/// that comes from a device, a campaign or a key.
enum Metric {
  // MARK: Per app

  static let submitted = MetricDescription(
    name: "carillon_notifications_submitted_total", help: "Notifications that were taken in.", kind: .counter)
  static let outcomes = MetricDescription(
    name: "carillon_notifications_total", help: "Notifications that have their outcome, by outcome and reason.",
    kind: .counter)
  static let resent = MetricDescription(
    name: "carillon_notifications_resent_total", help: "How often a notification was sent again.", kind: .counter)
  static let possibleDuplicates = MetricDescription(
    name: "carillon_possible_duplicates_total",
    help: "Notifications that were sent again although they may have arrived before.", kind: .counter)
  static let reconnects = MetricDescription(
    name: "carillon_reconnects_total", help: "Connections that ended or could not be opened, by cause.",
    kind: .counter)
  static let queueNotifications = MetricDescription(
    name: "carillon_queue_notifications", help: "Notifications that were taken in and wait for a connection.",
    kind: .gauge)
  static let queueBytes = MetricDescription(
    name: "carillon_queue_bytes", help: "Bytes of the payloads that wait for a connection.", kind: .gauge)
  static let queueOldest = MetricDescription(
    name: "carillon_queue_oldest_seconds",
    help: "Age of the oldest notification without an outcome that was taken in by itself or in a batch.",
    kind: .gauge)
  static let campaignStalled = MetricDescription(
    name: "carillon_campaign_stalled_seconds",
    help: "Time without any outcome of the app's campaign that stands still for longest; paused and held ones do not.",
    kind: .gauge)
  static let window = MetricDescription(
    name: "carillon_window_notifications",
    help: "Notifications that a connection has, or gets next, and that have no outcome.",
    kind: .gauge)
  static let connections = MetricDescription(
    name: "carillon_connections", help: "Connections to the gateway, by state.", kind: .gauge)
  static let paused = MetricDescription(
    name: "carillon_app_paused", help: "1 if the app sends nothing for this reason, else 0.", kind: .gauge)
  static let credentialExpiry = MetricDescription(
    name: "carillon_credential_expiry_timestamp_seconds",
    help: "When the app's certificate expires, in seconds since 1970. Token keys do not expire.", kind: .gauge)
  static let deliveryDuration = MetricDescription(
    name: "carillon_delivery_duration_seconds",
    help: "How long a notification took, by stage: gateway is from the socket to the outcome.",
    kind: .histogram(.durations([5, 10, 25, 50, 100, 250, 1_000, 5_000, 30_000, 300_000].map { .milliseconds($0) })))
  static let batchSize = MetricDescription(
    name: "carillon_batch_notifications", help: "Notifications that were written to a connection together.",
    kind: .histogram(.counts([1, 4, 16, 64, 256, 1_024])))

  // MARK: The bridge

  static let bridgeClients = MetricDescription(
    name: "carillon_bridge_clients", help: "Connected clients of the binary protocol.", kind: .gauge)
  static let bridgeFrames = MetricDescription(
    name: "carillon_bridge_frames_total", help: "Frames that clients of the binary protocol have sent.", kind: .counter)
  static let bridgeAlreadyDelivered = MetricDescription(
    name: "carillon_bridge_already_delivered_total",
    help: "Frames that had been forwarded before and were not sent twice.", kind: .counter)
  static let bridgeLastAlreadyDelivered = MetricDescription(
    name: "carillon_bridge_last_already_delivered_timestamp_seconds",
    help: "When a frame was last not sent because it had been forwarded before; 0: never since the start.",
    kind: .gauge)
  static let bridgeResponses = MetricDescription(
    name: "carillon_bridge_responses_total", help: "Error responses to clients of the binary protocol, by status.",
    kind: .counter)
  static let bridgeSilentCloses = MetricDescription(
    name: "carillon_bridge_silent_closes_total",
    help: "Connections that were closed without an error response, because a frame of command 0 failed.",
    kind: .counter)
  static let bridgeFeedback = MetricDescription(
    name: "carillon_bridge_feedback_total", help: "Devices that the feedback service has handed out.", kind: .counter)
  static let bridgeHeld = MetricDescription(
    name: "carillon_bridge_held_total",
    help: "Connections that waited for their turn because their address opens too many.", kind: .counter)
  static let bridgeTurnedAway = MetricDescription(
    name: "carillon_bridge_turned_away_total",
    help: "Connections that were closed before TLS because their address opens too many.", kind: .counter)
  static let bridgeRefused = MetricDescription(
    name: "carillon_bridge_refused_total", help: "Clients that were refused by their certificate.", kind: .counter)

  // MARK: The service

  static let ready = MetricDescription(
    name: "carillon_ready", help: "1 if the service takes notifications in, else 0.", kind: .gauge)
  static let journalSync = MetricDescription(
    name: "carillon_journal_fsync_seconds", help: "How long the journal's file took to become durable.",
    kind: .histogram(disk))
  static let journalLag = MetricDescription(
    name: "carillon_journal_lag_seconds", help: "How long the oldest record of a commit was not durable.",
    kind: .histogram(disk))
  static let journalFailed = MetricDescription(
    name: "carillon_journal_failed", help: "1 if the journal can no longer be written, else 0.", kind: .gauge)
  static let descriptorsLacking = MetricDescription(
    name: "carillon_descriptors_lacking",
    help: "1 if file descriptors are lacking, or were within the last minute, else 0.", kind: .gauge)
  static let storeLog = MetricDescription(
    name: "carillon_store_wal_bytes", help: "Size of the store's write-ahead log.", kind: .gauge)
  static let requestDuration = MetricDescription(
    name: "carillon_http_request_duration_seconds",
    help: "From the head of a request to the head of its response, by route, method and status code.",
    kind: .histogram(
      .durations([1, 2.5, 5, 10, 25, 50, 100, 250, 1_000, 5_000, 30_000].map { .milliseconds($0) })))

  private static let disk = HistogramBounds.durations(
    [0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 1_000, 5_000].map { .milliseconds($0) })

  /// All metrics, in the order of the export.
  static let all = [
    ready, submitted, outcomes, resent, possibleDuplicates, reconnects, queueNotifications, queueBytes, queueOldest,
    campaignStalled, window, connections, paused, credentialExpiry, deliveryDuration, batchSize, bridgeClients,
    bridgeFrames, bridgeAlreadyDelivered, bridgeLastAlreadyDelivered, bridgeResponses, bridgeSilentCloses,
    bridgeFeedback, bridgeRefused, bridgeHeld, bridgeTurnedAway, journalSync, journalLag, journalFailed,
    descriptorsLacking, storeLog,
    requestDuration,
  ]
}
