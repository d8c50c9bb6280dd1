internal import Carillon
internal import HTTPTypes
internal import PushEngine
internal import PushService
internal import PushStore
internal import Synchronization

/// The metrics of a service: counted as it happens, or read when they are exported.
final class ServiceMetrics: Sendable {
  let registry = MetricsRegistry(Metric.all)
  let requests: RequestMetrics
  /// Held while the series of apps are set or removed.
  private let apps = Mutex(())

  init() { requests = RequestMetrics(registry) }

  /// Observes a deployment. To be called before it runs.
  func observe(_ deployment: Deployment) {
    deployment.observeLanes { [registry] app in
      DeliveryObserver(
        batchSize: registry.histogram(Metric.batchSize, AppMetrics.batchLabels(app)),
        duration: registry.histogram(Metric.deliveryDuration, AppMetrics.deliveryLabels(app)))
    }
    let (journalSync, journalLag) = (registry.histogram(Metric.journalSync), registry.histogram(Metric.journalLag))
    deployment.observeCommits { sync, lag in
      if let sync { journalSync.record(sync) }
      journalLag.record(lag)
    }
  }

  /// Apps that were removed are exported no longer. To be called when the deployment has them no
  /// longer, and before one of the same name is added.
  func remove(apps ids: [String]) {
    guard !ids.isEmpty else { return }
    apps.withLock { _ in registry.remove(apps: ids) }
  }

  /// In the text format of Prometheus. Slow with many apps: not on a thread that others wait for.
  func text(
    _ deployment: Deployment, store: any Store, bridge: Bridge?, isReady: Bool, lacksDescriptors: Bool
  ) -> [UInt8] {
    registry.gauge(Metric.ready).set(isReady ? 1 : 0)
    registry.gauge(Metric.descriptorsLacking).set(lacksDescriptors ? 1 : 0)
    registry.gauge(Metric.journalFailed).set(deployment.journalFailure == nil ? 0 : 1)
    registry.gauge(Metric.storeLog).set(Double(store.logByteCount))
    registry.counter(Metric.bridgeRefused).set(total: bridge?.refusedCount ?? 0)
    let episodes = bridge?.handshakeEpisodes ?? HandshakeEpisodes()
    registry.counter(Metric.bridgeHeld).set(total: episodes.heldCount)
    registry.counter(Metric.bridgeTurnedAway).set(total: episodes.turnedAwayCount)
    let counts = bridge?.counts
    apps.withLock { _ in
      for app in deployment.apps {
        let metrics = AppMetrics(app: app.id, registry: registry)
        metrics.update(app)
        if let counts { metrics.update(counts[app.id] ?? BridgeCounts()) }
      }
    }
    return registry.text
  }
}

final class RequestMetrics: Sendable {
  private struct Key: Hashable {
    let route: String
    let method: String
    let status: Int
  }

  private let registry: MetricsRegistry
  private let known = Mutex<[Key: HistogramSeries]>([:])

  /// Methods that a route can have; a client may invent others.
  private static let methods: Set<String> = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

  init(_ registry: MetricsRegistry) { self.registry = registry }

  /// - Parameter route: the pattern of the address, such as `/v1/apps/{app}`; nil if there is none.
  func record(_ duration: Duration, route: String?, method: HTTPRequest.Method, status: HTTPResponse.Status) {
    let name = Self.methods.contains(method.rawValue) ? method.rawValue : "other"
    let key = Key(route: route ?? "none", method: name, status: status.code)
    let series = known.withLock { known in
      if let series = known[key] { return series }
      let series = registry.histogram(
        Metric.requestDuration, [("route", key.route), ("method", key.method), ("code", String(key.status))])
      known[key] = series
      return series
    }
    series.record(duration)
  }
}
