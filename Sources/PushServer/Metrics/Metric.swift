/// The metrics of the service.
///
/// Names and labels are an interface: alert rules and dashboards use them. No label has a value
/// that comes from a device, a campaign or a key.
enum Metric {
  // MARK: Per app

  static let submitted = counter("carillon_notifications_submitted_total", "Notifications that were taken in.")
  static let outcomes = counter(
    "carillon_notifications_total", "Notifications that have their outcome, by outcome and reason.")
  static let resent = counter("carillon_notifications_resent_total", "How often a notification was sent again.")
  static let possibleDuplicates = counter(
    "carillon_possible_duplicates_total", "Notifications that were sent again although they may have arrived before.")
  static let reconnects = counter(
    "carillon_reconnects_total", "Connections that ended or could not be opened, by cause.")
  static let queueNotifications = gauge(
    "carillon_queue_notifications", "Notifications that were taken in and wait for a connection.")
  static let queueBytes = gauge("carillon_queue_bytes", "Bytes of the payloads that wait for a connection.")
  static let queueOldest = gauge(
    "carillon_queue_oldest_seconds",
    "Age of the oldest notification without an outcome that was taken in by itself or in a batch.")
  static let campaignStalled = gauge(
    "carillon_campaign_stalled_seconds",
    "Time without any outcome of the app's campaign that stands still for longest; paused and held ones do not.")
  static let window = gauge(
    "carillon_window_notifications", "Notifications that a connection has, or gets next, and that have no outcome.")
  static let connections = gauge("carillon_connections", "Connections to the gateway, by state.")
  static let paused = gauge("carillon_app_paused", "1 if the app sends nothing for this reason, else 0.")
  static let credentialExpiry = gauge(
    "carillon_credential_expiry_timestamp_seconds",
    "When the app's certificate expires, in seconds since 1970. Token keys do not expire.")
  static let deliveryDuration = histogram(
    "carillon_delivery_duration_seconds",
    "How long a notification took, by stage: gateway is from the socket to the outcome.",
    deliveryBounds)
  static let deliveryBounds = HistogramBounds.durations(
    milliseconds: [5, 10, 25, 50, 100, 250, 1_000, 5_000, 30_000, 300_000])
  static let batchSize = histogram(
    "carillon_batch_notifications", "Notifications that were written to a connection together.",
    .counts([1, 4, 16, 64, 256, 1_024]))

  static let webhookWaiting = gauge(
    "carillon_webhook_waiting_outcomes", "Outcomes that the receiver of the app's webhook has not acknowledged.")
  static let webhookLag = gauge(
    "carillon_webhook_lag_seconds", "How long the oldest outcome has waited for the receiver of the app's webhook.")
  static let webhookDeliveries = counter(
    "carillon_webhook_deliveries_total", "Deliveries to the receiver of the app's webhook, by result.")

  // MARK: The bridge

  static let bridgeClients = gauge("carillon_bridge_clients", "Connected clients of the binary protocol.")
  static let bridgeFrames = counter(
    "carillon_bridge_frames_total", "Frames that clients of the binary protocol have sent.")
  static let bridgeAlreadyDelivered = counter(
    "carillon_bridge_already_delivered_total", "Frames that had been forwarded before and were not sent twice.")
  static let bridgeLastAlreadyDelivered = gauge(
    "carillon_bridge_last_already_delivered_timestamp_seconds",
    "When a frame was last not sent because it had been forwarded before; 0: never since the start.")
  static let bridgeResponses = counter(
    "carillon_bridge_responses_total", "Error responses to clients of the binary protocol, by status.")
  static let bridgeSilentCloses = counter(
    "carillon_bridge_silent_closes_total",
    "Connections that were closed without an error response, because a frame of command 0 failed.")
  static let bridgeFeedback = counter(
    "carillon_bridge_feedback_total", "Devices that the feedback service has handed out.")
  static let bridgeDelayed = counter(
    "carillon_bridge_held_total", "Connections that waited for their turn because their address opens too many.")
  static let bridgeTurnedAway = counter(
    "carillon_bridge_turned_away_total",
    "Connections that were closed before TLS because their address opens too many.")
  static let bridgeRefused = counter("carillon_bridge_refused_total", "Clients that were refused by their certificate.")

  // MARK: The service

  static let build = gauge("carillon_build_info", "Always 1; the labels say what the program was built from.")
  static let ready = gauge("carillon_ready", "1 if the service takes notifications in, else 0.")
  static let journalSync = histogram(
    "carillon_journal_fsync_seconds", "How long the journal's file took to become durable.", disk)
  static let journalLag = histogram(
    "carillon_journal_lag_seconds", "How long the oldest record of a commit was not durable.", disk)
  static let journalFailed = gauge("carillon_journal_failed", "1 if the journal can no longer be written, else 0.")
  static let descriptorsLacking = gauge(
    "carillon_descriptors_lacking", "1 if file descriptors are lacking, or were within the last minute, else 0.")
  static let storeAway = gauge(
    "carillon_store_away_seconds", "How long the store has been away, and outcomes wait for it; 0: it is not.")
  static let storeLog = gauge("carillon_store_wal_bytes", "Size of the store's write-ahead log.")
  static let databaseStandbys = gauge("carillon_database_standbys", "Standbys of the database that are connected.")
  static let databaseSynchronousStandbys = gauge(
    "carillon_database_synchronous_standbys", "Of the connected standbys, those that commits wait for.")
  static let databaseTransaction = gauge(
    "carillon_database_oldest_transaction_seconds",
    "How long the oldest transaction in the database has been open: vacuum removes nothing that it may see.")
  static let databaseRows = gauge("carillon_database_rows", "Rows of the store in the database, about.")
  static let databaseDeadRows = gauge(
    "carillon_database_dead_rows", "Rows that the database has not removed yet, about.")
  static let nodes = gauge("carillon_nodes", "Nodes that share the store, by state, as this one sees them.")
  static let nodeLeads = gauge("carillon_node_leads", "1 if this node leads, else 0.")
  static let nodeDraining = gauge("carillon_node_draining", "1 if this node gives back what it carries, else 0.")
  static let nodeClock = gauge(
    "carillon_node_clock_offset_seconds", "How far this node's clock is ahead of the database's.")
  static let nodeDiffers = gauge(
    "carillon_node_configuration_differs",
    "1 if this node's apps and their settings are not those of the node that leads, else 0.")
  static let requestDuration = histogram(
    "carillon_http_request_duration_seconds",
    "From the head of a request to the head of its response, by route, method and status code.",
    .durations(milliseconds: [1, 2.5, 5, 10, 25, 50, 100, 250, 1_000, 5_000, 30_000]))

  private static let disk = HistogramBounds.durations(
    milliseconds: [0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 1_000, 5_000])

  private static func counter(_ name: String, _ help: String) -> MetricDescription {
    MetricDescription(name: name, help: help, kind: .counter)
  }

  private static func gauge(_ name: String, _ help: String) -> MetricDescription {
    MetricDescription(name: name, help: help, kind: .gauge)
  }

  private static func histogram(_ name: String, _ help: String, _ bounds: HistogramBounds) -> MetricDescription {
    MetricDescription(name: name, help: help, kind: .histogram(bounds))
  }

  /// All metrics, in the order of the export.
  static let all = [
    build, ready, submitted, outcomes, resent, possibleDuplicates, reconnects, queueNotifications, queueBytes,
    queueOldest, campaignStalled, window, connections, paused, credentialExpiry, deliveryDuration, batchSize,
    webhookWaiting, webhookLag, webhookDeliveries, bridgeClients, bridgeFrames, bridgeAlreadyDelivered,
    bridgeLastAlreadyDelivered, bridgeResponses, bridgeSilentCloses, bridgeFeedback, bridgeRefused, bridgeDelayed,
    bridgeTurnedAway, journalSync, journalLag, journalFailed, descriptorsLacking, storeAway, storeLog, databaseStandbys,
    databaseSynchronousStandbys, databaseTransaction, databaseRows, databaseDeadRows, nodes, nodeLeads, nodeDraining,
    nodeClock, nodeDiffers, requestDuration,
  ]
}
