internal import Carillon
internal import Foundation
internal import PushEngine
internal import ServiceLifecycle
internal import Synchronization

/// What is remembered for those who look at the service: how fast each app sends.
final class Seeing: Sendable {
  private let rates = Mutex<[String: RateWindow]>([:])
  let journalDirectory: String

  init(journalDirectory: String) { self.journalDirectory = journalDirectory }

  /// Notifications of an app that got their outcome, per second, over the last minute.
  func rate(_ app: String) -> Double { rates.withLock { $0[app]?.perSecond ?? 0 } }

  func sample(_ deployment: Deployment, now: ContinuousClock.Instant) {
    let counts = deployment.apps.map { ($0.id, $0.tally.account.settled) }
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

  /// Bytes that are free on the journal's disk; nil if that cannot be found out.
  var freeByteCount: Int? {
    let attributes = try? FileManager.default.attributesOfFileSystem(forPath: journalDirectory)
    return (attributes?[.systemFreeSize] as? NSNumber)?.intValue
  }
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

/// Samples the apps' totals until the service ends.
struct RateSampling: Service {
  let seeing: Seeing
  let deployment: Deployment

  func run() async throws {
    await cancelWhenGracefulShutdown {
      repeat { seeing.sample(deployment, now: .now) } while (try? await Task.sleep(for: RateWindow.interval)) != nil
    }
  }
}
