internal import Carillon
internal import CoreMetrics
internal import PushEngine
internal import PushStore
internal import Synchronization

/// The metrics of a service: what is counted as it happens, and what is read when they are exported.
final class ServiceMetrics: Sendable {
  let registry = MetricsRegistry(Metric.all)
  let requests: RequestMetrics
  private let journalSync: HistogramSeries
  private let journalLag: HistogramSeries
  private let ready: GaugeSeries
  private let journalFailed: GaugeSeries
  private let storeLog: GaugeSeries
  private let bridgeRefused: CounterSeries
  private let apps = Mutex<[String: AppMetrics]>([:])
  private let bridges = Mutex<[String: BridgeMetrics]>([:])

  init() {
    requests = RequestMetrics(registry)
    journalSync = registry.histogram(Metric.journalSync)
    journalLag = registry.histogram(Metric.journalLag)
    ready = registry.gauge(Metric.ready)
    bridgeRefused = registry.counter(Metric.bridgeRefused)
    journalFailed = registry.gauge(Metric.journalFailed)
    storeLog = registry.gauge(Metric.storeLog)
  }

  /// Before the deployment runs.
  func observe(_ deployment: Deployment) {
    deployment.observeLanes { [registry] app in
      DeliveryObserver(
        batchSize: registry.histogram(Metric.batchSize, [("app", app)]),
        duration: registry.histogram(Metric.deliveryDuration, [("app", app), ("stage", "gateway")]))
    }
    deployment.observeCommits { [journalSync, journalLag] sync, lag in
      if let sync { journalSync.record(sync) }
      journalLag.record(lag)
    }
  }

  /// In the text format of Prometheus.
  func text(_ deployment: Deployment, store: SQLiteStore, bridge: Bridge?, isReady: Bool) -> [UInt8] {
    ready.set(isReady ? 1 : Int64(0))
    journalFailed.set(deployment.journalFailure == nil ? 0 : Int64(1))
    storeLog.set(Int64(store.logByteCount))
    apps.withLock { apps in
      let present = deployment.apps
      for app in present { apps[app.id, default: AppMetrics(app.id, registry)].update(app) }
      for id in Set(apps.keys).subtracting(present.map(\.id)) {
        if let gone = apps.removeValue(forKey: id) { registry.remove(gone.series) }
      }
    }
    if let bridge {
      bridgeRefused.set(total: bridge.refusedCount)
      bridges.withLock { bridges in
        for (app, counts) in bridge.counts { bridges[app, default: BridgeMetrics(app, registry)].update(counts) }
      }
    }
    return registry.text
  }
}
