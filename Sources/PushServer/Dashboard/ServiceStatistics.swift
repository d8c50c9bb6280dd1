internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushService
internal import PushStore
internal import PushWire
internal import ServiceLifecycle
internal import Synchronization

/// How fast each app and each campaign sends, over the last minute, and what apps did lately. For
/// the dashboard and the API.
final class ServiceStatistics: Sendable {
  private let rates = Mutex<[String: RateWindow]>([:])
  private let histories = Mutex<[String: AppHistory]>([:])
  private let paces = Mutex<[StoredUUID: RateWindow]>([:])
  private let journalDirectory: String
  private let storePath: String
  private let durations: @Sendable (String) -> [Int]

  /// - Parameter durations: by app, how many of its notifications the gateway took how long for, as
  ///   ``Metric/deliveryDuration`` has it.
  init(
    journalDirectory: String, storePath: String, durations: @escaping @Sendable (String) -> [Int] = { _ in [] }
  ) {
    (self.journalDirectory, self.storePath, self.durations) = (journalDirectory, storePath, durations)
  }

  /// Notifications of an app that got their outcome, per second, over the last minute.
  func rate(_ app: String) -> Double { rates.withLock { $0[app]?.perSecond ?? 0 } }

  /// What nodes add up.
  func figures(of app: PushApp, _ status: AppStatusSnapshot) -> NodeStatus.Figures {
    var figures = NodeStatus.Figures()
    let account = app.tally.account
    figures[.rate] = rate(app.id)
    figures[.pending] = Double(status.pendingCount)
    (figures[.queued], figures[.queuedBytes]) = (Double(status.queue.notifications), Double(status.queue.byteCount))
    figures[.connections] = Double(status.connections.open)
    (figures[.accepted], figures[.others]) = (Double(account.accepted), Double(account.settled - account.accepted))
    guard let history = history(app.id) else { return figures }
    let (day, lately) = (history.total(.day), history.total(.minutes))
    figures[.acceptedOfDay] = Double(day.accepted)
    (figures[.acceptedLately], figures[.othersLately]) = (Double(lately.accepted), Double(lately.others))
    return figures
  }

  /// Nil: the app is new.
  func history(_ app: String) -> AppHistory? { histories.withLock { $0[app] } }

  /// Notifications of a campaign that get their outcome in a second, over the last minute; 0 while
  /// that is not known, and when none got it lately.
  func pace(_ campaign: StoredUUID) -> Double {
    paces.withLock { paces in paces[campaign].flatMap { $0.stands ? nil : $0.perSecond } ?? 0 }
  }

  /// - Parameter counts: of the campaigns that send at present: notifications with an outcome.
  func sample(_ counts: [(campaign: StoredUUID, settled: Int)], now: Instant) {
    paces.withLock { Self.sample(&$0, counts.map { ($0.campaign, $0.settled) }, now) }
  }

  func sample(_ deployment: Deployment, now: Instant) {
    var counts: [(key: String, count: Int)] = []
    var samples: [String: AppHistory.Sample] = [:]
    for app in deployment.apps {
      // Whether campaigns stand still is known from one look to the next.
      _ = app.campaignStall
      let account = app.tally.account
      counts.append((app.id, account.settled))
      samples[app.id] = AppHistory.Sample(
        accepted: account.accepted, others: account.settled - account.accepted, pending: app.status.pendingCount,
        durations: durations(app.id))
    }
    rates.withLock { Self.sample(&$0, counts, now) }
    note(samples, now: now)
  }

  /// - Parameter samples: of every app.
  private func note(_ samples: [String: AppHistory.Sample], now: Instant) {
    histories.withLock { histories in
      var kept: [String: AppHistory] = [:]
      for (app, sample) in samples {
        var history = histories[app] ?? AppHistory(bounds: Metric.deliveryBounds)
        history.add(sample, now: now)
        kept[app] = history
      }
      histories = kept
    }
  }

  /// What is not counted any longer is forgotten.
  private static func sample<Key: Hashable>(
    _ windows: inout [Key: RateWindow], _ counts: [(key: Key, count: Int)], _ now: Instant
  ) {
    var kept: [Key: RateWindow] = [:]
    for (key, count) in counts {
      var window = windows[key] ?? RateWindow()
      window.add(count, now: now)
      kept[key] = window
    }
    windows = kept
  }

  /// The disk of journal or store that has less left; nil if that cannot be found out.
  var fullerDisk: FreeSpace? {
    [("journal", journalDirectory), ("store", storePath)].compactMap { name, directory -> FreeSpace? in
      let attributes = try? FileManager.default.attributesOfFileSystem(forPath: directory)
      guard let count = (attributes?[.systemFreeSize] as? NSNumber)?.intValue else { return nil }
      return FreeSpace(of: name, byteCount: count)
    }.min { $0.byteCount < $1.byteCount }
  }
}

struct FreeSpace: Hashable, Sendable {
  /// What is on it.
  let of: String
  let byteCount: Int
}

/// A total at several times of the last minute.
struct RateWindow: Sendable {
  private var samples: [(total: Int, at: Instant)] = []

  static let interval = Duration.seconds(5)
  private static let sampleCount = 13

  mutating func add(_ total: Int, now: Instant) {
    samples.append((total, now))
    if samples.count > Self.sampleCount { samples.removeFirst() }
  }

  /// Nothing was added within the last two intervals.
  var stands: Bool {
    guard let last = samples.last, samples.count > Self.lately else { return false }
    return samples[samples.count - 1 - Self.lately].total >= last.total
  }

  private static let lately = 2

  var perSecond: Double {
    guard let first = samples.first, let last = samples.last, last.at > first.at else { return 0 }
    return Double(max(0, last.total - first.total)) / last.at.since(first.at).inSeconds
  }
}

/// Samples the totals of apps, how far campaigns have come, and the alarms, until the service ends.
struct RateSampling: Service {
  let statistics: ServiceStatistics
  let deployment: Deployment
  let controller: CampaignController
  let alarms: AlarmWatch

  func run() async throws {
    await cancelWhenGracefulShutdown {
      repeat {
        statistics.sample(deployment, now: controller.clock.uptime)
        statistics.sample(controller.settledCounts, now: controller.clock.uptime)
        alarms.look()
      } while (try? await controller.clock.sleep(for: RateWindow.interval)) != nil
    }
  }
}

extension CampaignController {
  /// Of each campaign that sends at present, how many notifications have their outcome.
  fileprivate var settledCounts: [(campaign: StoredUUID, settled: Int)] {
    all.compactMap { live in live.settledCount.map { (live.id, $0) } }
  }
}
