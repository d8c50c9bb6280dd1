internal import Carillon
internal import Logging
internal import PushService
package import PushStore
internal import PushWire
internal import ServiceLifecycle
internal import Synchronization

/// Reads the feedback services of the binary apps now and then, and stores which devices are gone.
struct FeedbackPolling: Service {
  let deployment: Deployment
  let store: any Store
  let tenants: @Sendable () -> [Tenant]
  /// A service forgets what it was asked for, so one of those that share the store asks.
  let leads: @Sendable () -> Bool
  let clock: any ServiceClock
  let logger: Logger

  /// Connections to feedback services at the same time.
  private static let concurrency = 4

  func run() async throws {
    await cancelWhenGracefulShutdown {
      var due: [String: StoreInstant] = [:]
      while !Task.isCancelled {
        guard leads() else {
          // Another one may have asked since.
          due = [:]
          try? await clock.sleep(for: .seconds(1))
          continue
        }
        let apps = tenants().filter { !$0.app.transport.isHTTP2 && $0.feedbackInterval != .zero }
        due = await plan(apps, due)
        let now = clock.now
        let ready = apps.filter { due[$0.id].map { $0 <= now } ?? false }
        for start in stride(from: 0, to: ready.count, by: Self.concurrency) {
          let part = ready[start..<min(ready.count, start + Self.concurrency)]
          for (id, next) in await poll(Array(part)) { due[id] = next }
        }
        try? await clock.sleep(for: FeedbackSchedule.pause(until: due.values.min(), now: clock.now))
      }
    }
  }

  /// When each app's turn is, of those that are there.
  private func plan(_ tenants: [Tenant], _ due: [String: StoreInstant]) async -> [String: StoreInstant] {
    var planned: [String: StoreInstant] = [:]
    for app in tenants {
      if let known = due[app.id], FeedbackSchedule.stands(known, every: app.feedbackInterval, now: clock.now) {
        planned[app.id] = known
        continue
      }
      do throws(StoreError) {
        planned[app.id] = FeedbackSchedule.next(
          after: try await store.lastFeedbackPoll(app: app.id), every: app.feedbackInterval, now: clock.now,
          chance: .random(in: 0...1))
      } catch {
        logger.error("the store cannot be read", metadata: ["why": "\(error)"])
      }
    }
    return planned
  }

  private func poll(_ tenants: [Tenant]) async -> [(String, StoreInstant)] {
    await withTaskGroup(of: (String, StoreInstant).self) { group in
      for app in tenants { group.addTask { (app.id, await poll(app)) } }
      return await group.reduce(into: []) { $0.append($1) }
    }
  }

  private func poll(_ app: Tenant) async -> StoreInstant {
    do {
      let count = try await deployment.app(app.id).readFeedback(
        into: StoredFeedback(app: app.id, store: store, clock: clock))
      let now = clock.now
      try await store.noteFeedbackPoll(app: app.id, at: now)
      logger.info("feedback read", metadata: ["app": "\(app.id)", "devices": "\(count)"])
      return FeedbackSchedule.next(after: now, every: app.feedbackInterval, now: now, chance: .random(in: 0...1))
    } catch {
      if !Task.isCancelled {
        logger.warning("feedback cannot be read", metadata: ["app": "\(app.id)", "why": "\(error)"])
      }
      return FeedbackSchedule.afterFailure(every: app.feedbackInterval, now: clock.now, chance: .random(in: 0...1))
    }
  }
}

/// Puts entries of a feedback service into the store. What a service sent before the store had it
/// would be lost, so the connection is not read on until it has.
private final class StoredFeedback: FeedbackOutput {
  private let app: String
  private let store: any Store
  private let clock: any ServiceClock
  private let waiting = Mutex<[StoredGoneDevice]>([])

  init(app: String, store: any Store, clock: any ServiceClock) {
    (self.app, self.store, self.clock) = (app, store, clock)
  }

  func write(_ tuple: FeedbackTuple) -> String? {
    let device = StoredGoneDevice(
      app: app, token: tuple.token.bytes, since: StoreInstant(milliseconds: Int64(tuple.timestamp) * 1000),
      foundAt: clock.now)
    waiting.withLock { $0.append(device) }
    return nil
  }

  func synchronise() -> String? {
    var changes = IntakeChanges()
    changes.gone = waiting.withLock { exchange(&$0, with: []) }
    guard !changes.isEmpty else { return nil }
    do throws(StoreError) {
      try store.write(changes)
      return nil
    } catch {
      return error.description
    }
  }
}

/// When the feedback service of an app is read next.
package enum FeedbackSchedule {
  /// The first reading, and one that is overdue, comes within this time of the start. So the
  /// services of many apps are not all read at once.
  private static let spread = Duration.seconds(600)
  /// The pause after a failure.
  private static let retryPause = Duration.seconds(1800)
  /// Between looks. Apps that were added are seen within the longest.
  private static let pauses = Duration.milliseconds(100) ... .seconds(60)

  /// - Parameters:
  ///   - last: when the list was last read to its end.
  ///   - chance: from 0 to 1, by chance.
  package static func next(
    after last: StoreInstant?, every interval: Duration, now: StoreInstant, chance: Double
  ) -> StoreInstant {
    let soon = now.advanced(by: min(spread, interval) * chance)
    guard let last else { return soon }
    // A tenth earlier or later.
    return max(last.advanced(by: interval * (0.9 + 0.2 * chance)), soon)
  }

  package static func afterFailure(every interval: Duration, now: StoreInstant, chance: Double) -> StoreInstant {
    now.advanced(by: min(retryPause, interval) * (0.5 + 0.5 * chance))
  }

  /// Whether a reading that was planned before is still due then: an interval that has become
  /// shorter counts at once.
  package static func stands(_ due: StoreInstant, every interval: Duration, now: StoreInstant) -> Bool {
    due <= now.advanced(by: interval * 1.1)
  }

  /// - Parameter due: when the next reading is; nil: none is planned.
  package static func pause(until due: StoreInstant?, now: StoreInstant) -> Duration {
    let left = due.map { Duration.milliseconds($0.milliseconds - now.milliseconds) } ?? pauses.upperBound
    return max(pauses.lowerBound, min(left, pauses.upperBound))
  }
}

extension StoreInstant {
  package func advanced(by duration: Duration) -> StoreInstant {
    let (seconds, attoseconds) = duration.components
    return StoreInstant(milliseconds: milliseconds + seconds * 1000 + attoseconds / 1_000_000_000_000_000)
  }
}
