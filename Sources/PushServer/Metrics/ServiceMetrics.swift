internal import Carillon
internal import HTTPTypes
internal import PushEngine
internal import PushService
internal import PushStore
internal import Synchronization

/// The metrics of a service: counted as it happens, or read when they are exported.
final class ServiceMetrics: Sendable {
  private let histograms = Histograms()
  let requests: RequestMetrics
  /// Held while the series of apps are read or removed.
  private let apps = Mutex(())
  /// As it was lately; nil: there is none, or it is away.
  private let database = Mutex<DatabaseState?>(nil)

  init() { requests = RequestMetrics(histograms) }

  /// Observes a deployment. To be called before it runs.
  func observe(_ deployment: Deployment) {
    deployment.observeLanes { [histograms] app in
      DeliveryObserver(
        batchSize: histograms.series(Metric.batchSize, ("app", app)),
        duration: histograms.series(Metric.deliveryDuration, ("app", app), ("stage", "gateway")))
    }
    let (journalSync, journalLag) = (histograms.series(Metric.journalSync), histograms.series(Metric.journalLag))
    deployment.observeCommits { sync, lag in
      if let sync { journalSync.record(sync) }
      journalLag.record(lag)
    }
  }

  /// As it was lately; nil: there is none, or it is away.
  var databaseState: DatabaseState? { database.withLock { $0 } }

  func note(_ state: DatabaseState?) { database.withLock { $0 = state } }

  /// How many notifications of an app its gateway took how long for, by bucket.
  func deliveryDurations(_ app: String) -> [Int] {
    histograms.known(Metric.deliveryDuration, ("app", app), ("stage", "gateway"))?.bucketCounts ?? []
  }

  /// Apps that were removed are exported no longer. To be called when the deployment has them no
  /// longer, and before one of the same name is added.
  func remove(apps ids: [String]) {
    guard !ids.isEmpty else { return }
    apps.withLock { _ in histograms.remove(apps: ids) }
  }

  /// In the text format of Prometheus. Slow with many apps: not on a thread that others wait for.
  func text(
    _ deployment: Deployment, program: ProgramFacts, store: any Store, storeAway: Duration?, bridge: Bridge?,
    membership: NodeMembership,
    webhooks: [String: WebhookState], now: StoreInstant, isReady: Bool, lacksDescriptors: Bool
  ) -> [UInt8] {
    var text = MetricsText(Metric.all)
    text.add(Metric.build, 1, ("version", ProgramFacts.version), ("commit", program.commitText))
    text.add(Metric.ready, isReady ? 1 : 0)
    text.add(Metric.descriptorsLacking, lacksDescriptors ? 1 : 0)
    text.add(Metric.journalFailed, deployment.journalFailure == nil ? 0 : 1)
    text.add(Metric.storeAway, (storeAway ?? .zero) / .seconds(1))
    text.add(Metric.storeLog, Double(store.logByteCount))
    if let state = databaseState { text.add(state) }
    text.add(membership)
    text.add(Metric.bridgeRefused, bridge?.refusedCount ?? 0)
    let episodes = bridge?.handshakeEpisodes ?? HandshakeEpisodes()
    text.add(Metric.bridgeDelayed, episodes.delayedCount)
    text.add(Metric.bridgeTurnedAway, episodes.turnedAwayCount)
    let counts = bridge?.counts
    apps.withLock { _ in
      for app in deployment.apps {
        text.add(app)
        // Without any value yet too, so that the first of them is seen as an increase.
        _ = histograms.series(Metric.batchSize, ("app", app.id))
        _ = histograms.series(Metric.deliveryDuration, ("app", app.id), ("stage", "gateway"))
        if let webhook = webhooks[app.id] { text.add(webhook, of: app.id, now: now) }
        if let counts { text.add(counts[app.id] ?? BridgeCounts(), of: app.id) }
      }
      for histogram in histograms.all { text.add(histogram) }
    }
    return text.bytes
  }
}

extension MetricsText {
  fileprivate mutating func add(_ state: DatabaseState) {
    if let count = state.standbyCount { add(Metric.databaseStandbys, count) }
    if let count = state.synchronousStandbyCount { add(Metric.databaseSynchronousStandbys, count) }
    if let age = state.transactionAge { add(Metric.databaseTransaction, age / .seconds(1)) }
    add(Metric.databaseRows, state.liveRowCount)
    add(Metric.databaseDeadRows, state.deadRowCount)
  }
}

extension MetricsText {
  /// Nothing, if no other process can use the store.
  fileprivate mutating func add(_ membership: NodeMembership) {
    let nodes = membership.lastSeen
    guard let own = nodes.first(where: { $0.incarnation == membership.current }) else { return }
    for state in StoredNode.State.allCases {
      add(Metric.nodes, nodes.count { $0.state == state }, ("state", state.rawValue))
    }
    add(Metric.nodeLeads, membership.leads ? 1 : 0)
    add(Metric.nodeDraining, own.isDraining ? 1 : 0)
    if let offset = membership.clockOffset { add(Metric.nodeClock, offset / .seconds(1)) }
    add(Metric.nodeDiffers, StoredNode.configuredOtherwise(nodes).contains(own.name) ? 1 : 0)
  }
}

final class RequestMetrics: Sendable {
  private struct Key: Hashable {
    let route: String
    let method: String
    let status: Int
  }

  private let histograms: Histograms
  private let known = Mutex<[Key: HistogramSeries]>([:])

  /// Methods that a route can have; a client may invent others.
  private static let methods: Set<String> = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

  init(_ histograms: Histograms) { self.histograms = histograms }

  /// - Parameter route: the pattern of the address, such as `/v1/apps/{app}`; nil if there is none.
  func record(_ duration: Duration, route: String?, method: HTTPRequest.Method, status: HTTPResponse.Status) {
    let name = Self.methods.contains(method.rawValue) ? method.rawValue : "other"
    let key = Key(route: route ?? "none", method: name, status: status.code)
    let series = known.withLock { known in
      if let series = known[key] { return series }
      let series = histograms.series(
        Metric.requestDuration, ("route", key.route), ("method", key.method), ("code", String(key.status)))
      known[key] = series
      return series
    }
    series.record(duration)
  }
}
