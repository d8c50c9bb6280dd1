internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushStore
internal import ServiceLifecycle
internal import Synchronization

/// How fast each app and each campaign sends, over the last minute. Shown by the dashboard and the
/// API.
final class ServiceStatistics: Sendable {
  private let rates = Mutex<[String: RateWindow]>([:])
  /// The pace of each campaign: its done share in billionths.
  private let paces = Mutex<[StoredUUID: RateWindow]>([:])
  private let journalDirectory: String
  private let storePath: String

  init(journalDirectory: String, storePath: String) {
    self.journalDirectory = journalDirectory
    self.storePath = storePath
  }

  /// Notifications of an app that got their outcome, per second, over the last minute.
  func rate(_ app: String) -> Double { rates.withLock { $0[app]?.perSecond ?? 0 } }

  /// How much of a campaign is done in a second, as a share of the whole, over the last minute; 0
  /// while it is not known.
  func pace(_ campaign: StoredUUID) -> Double { (paces.withLock { $0[campaign]?.perSecond ?? 0 }) / Self.billion }

  private static let billion = 1e9

  /// - Parameter shares: of the campaigns that send at present.
  func sample(_ shares: [(campaign: StoredUUID, share: Double)], now: ContinuousClock.Instant) {
    paces.withLock { paces in
      var kept: [StoredUUID: RateWindow] = [:]
      for (campaign, share) in shares {
        var window = paces[campaign] ?? RateWindow()
        window.add(Int(share * Self.billion), now: now)
        kept[campaign] = window
      }
      paces = kept
    }
  }

  func sample(_ deployment: Deployment, now: ContinuousClock.Instant) {
    let counts = deployment.apps.map { app in
      // Whether campaigns stand still is known from one look to the next.
      _ = app.campaignStall
      return (app.id, app.tally.account.settled)
    }
    rates.withLock { rates in
      var kept: [String: RateWindow] = [:]
      for (id, count) in counts {
        var window = rates[id] ?? RateWindow()
        window.add(count, now: now)
        kept[id] = window
      }
      rates = kept
    }
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

/// What a disk has left.
struct FreeSpace: Hashable, Sendable {
  /// What is on it.
  let of: String
  let byteCount: Int
}

/// A total at several times of the last minute.
struct RateWindow: Sendable {
  private var samples: [(total: Int, at: ContinuousClock.Instant)] = []

  static let interval = Duration.seconds(5)
  private static let sampleCount = 13

  mutating func add(_ total: Int, now: ContinuousClock.Instant) {
    samples.append((total, now))
    if samples.count > Self.sampleCount { samples.removeFirst() }
  }

  var perSecond: Double {
    guard let first = samples.first, let last = samples.last, last.at > first.at else { return 0 }
    return Double(max(0, last.total - first.total)) / ((last.at - first.at) / .seconds(1))
  }
}

/// Samples the totals of apps, and how far campaigns have come, until the service ends.
struct RateSampling: Service {
  let statistics: ServiceStatistics
  let deployment: Deployment
  let controller: CampaignController

  func run() async throws {
    await cancelWhenGracefulShutdown {
      repeat {
        statistics.sample(deployment, now: .now)
        statistics.sample(controller.shares, now: .now)
      } while (try? await Task.sleep(for: RateWindow.interval)) != nil
    }
  }
}

extension CampaignController {
  /// The share that is done of each campaign that sends at present. Of a campaign in several parts
  /// it is not known: the parts send at different times.
  fileprivate var shares: [(campaign: StoredUUID, share: Double)] {
    all.compactMap { live in
      guard let campaign = live.campaign(part: 0), !campaign.isPaused, let fraction = campaign.fractionRead else {
        return nil
      }
      return (live.id, CampaignReport.share(fraction, campaign.accountSoFar))
    }
  }
}
