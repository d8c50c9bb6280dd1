internal import Carillon
internal import CoreMetrics
internal import PushEngine
internal import PushService
internal import PushStore
internal import Synchronization

/// The metrics of a service: what is counted as it happens, and what is read when they are
/// exported.
final class ServiceMetrics: Sendable {
  let registry = MetricsRegistry(Metric.all)
  let requests: RequestMetrics
  private let journalSync: HistogramSeries
  private let journalLag: HistogramSeries
  private let ready: GaugeSeries
  private let journalFailed: GaugeSeries
  private let descriptorsLacking: GaugeSeries
  private let storeLog: GaugeSeries
  private let bridgeRefused: CounterSeries
  private let bridgeHeld: CounterSeries
  private let bridgeTurnedAway: CounterSeries
  private let apps = Mutex<[String: AppMetrics]>([:])
  private let bridges = Mutex<[String: BridgeMetrics]>([:])

  init() {
    requests = RequestMetrics(registry)
    journalSync = registry.histogram(Metric.journalSync)
    journalLag = registry.histogram(Metric.journalLag)
    ready = registry.gauge(Metric.ready)
    bridgeRefused = registry.counter(Metric.bridgeRefused)
    bridgeHeld = registry.counter(Metric.bridgeHeld)
    bridgeTurnedAway = registry.counter(Metric.bridgeTurnedAway)
    journalFailed = registry.gauge(Metric.journalFailed)
    descriptorsLacking = registry.gauge(Metric.descriptorsLacking)
    storeLog = registry.gauge(Metric.storeLog)
  }

  /// Observes a deployment. To be called before it runs.
  func observe(_ deployment: Deployment) {
    deployment.observeLanes { [registry] app in
      DeliveryObserver(
        batchSize: registry.histogram(Metric.batchSize, AppMetrics.batchLabels(app)),
        duration: registry.histogram(Metric.deliveryDuration, AppMetrics.deliveryLabels(app)))
    }
    deployment.observeCommits { [journalSync, journalLag] sync, lag in
      if let sync { journalSync.record(sync) }
      journalLag.record(lag)
    }
  }

  /// Apps that were removed are exported no longer. To be called when the deployment has them no
  /// longer, and before one of the same name is added.
  func remove(apps ids: [String]) {
    guard !ids.isEmpty else { return }
    // An app that was never exported has histograms all the same.
    var gone = apps.withLock { apps in
      ids.flatMap { (apps.removeValue(forKey: $0) ?? AppMetrics($0, registry)).series }
    }
    gone += bridges.withLock { bridges in ids.flatMap { bridges.removeValue(forKey: $0)?.series ?? [] } }
    registry.remove(gone)
  }

  /// In the text format of Prometheus. Takes a while with many apps: not to be called on a thread
  /// that others wait for.
  func text(
    _ deployment: Deployment, store: any Store, bridge: Bridge?, isReady: Bool, lacksDescriptors: Bool
  ) -> [UInt8] {
    ready.set(isReady ? 1 : Int64(0))
    descriptorsLacking.set(lacksDescriptors ? 1 : Int64(0))
    journalFailed.set(deployment.journalFailure == nil ? 0 : Int64(1))
    storeLog.set(Int64(store.logByteCount))
    apps.withLock { apps in
      for app in deployment.apps { apps[app.id, default: AppMetrics(app.id, registry)].update(app) }
    }
    if let bridge {
      bridgeRefused.set(total: bridge.refusedCount)
      let episodes = bridge.handshakeEpisodes
      bridgeHeld.set(total: episodes.heldCount)
      bridgeTurnedAway.set(total: episodes.turnedAwayCount)
      bridges.withLock { bridges in
        let counts = bridge.counts
        for app in deployment.apps {
          bridges[app.id, default: BridgeMetrics(app.id, registry)].update(counts[app.id] ?? BridgeCounts())
        }
      }
    }
    return registry.text
  }
}
