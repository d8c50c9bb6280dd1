internal import Carillon
internal import Logging
internal import PushService
internal import PushStore
internal import PushWire
internal import ServiceLifecycle
internal import Synchronization

/// Delivers the outcomes of apps to their receivers: in order, each at least once, and only as fast
/// as a receiver acknowledges. What waits is in the store.
///
/// Through which outcome a receiver has them is noted a moment after its answer, for all apps
/// together. What was acknowledged within that time before a kill is delivered again.
final class WebhookDelivery: Service {
  private let states: WebhookStates
  private let feed: OutcomeFeed
  private let store: any Store
  /// By their ids, as they count at present.
  private let tenants: @Sendable () -> [String: Tenant]
  /// One of those that share the store delivers.
  private let leads: @Sendable () -> Bool
  private let clock: any ServiceClock
  private let logger: Logger
  /// What receivers have acknowledged, and the store does not know yet.
  private let acknowledged = Mutex<[String: Int64]>([:])
  /// Apps whose deliveries have begun.
  private let running = Mutex<Set<String>>([])

  private static let noteInterval = Duration.milliseconds(100)
  private static let lookInterval = Duration.seconds(1)
  /// For the next outcome, between looks at the store.
  private static let idleWait = Duration.seconds(10)

  init(
    states: WebhookStates, feed: OutcomeFeed, store: any Store, tenants: @escaping @Sendable () -> [String: Tenant],
    leads: @escaping @Sendable () -> Bool, clock: any ServiceClock, logger: Logger
  ) {
    (self.states, self.feed, self.store, self.tenants, self.leads) = (states, feed, store, tenants, leads)
    (self.clock, self.logger) = (clock, logger)
  }

  func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      await withDiscardingTaskGroup { group in
        group.addTask { [self] in
          while (try? await clock.sleep(for: Self.noteInterval)) != nil { await noteAcknowledged() }
        }
        while !Task.isCancelled {
          for (app, webhook) in wanted where running.withLock({ $0.insert(app).inserted }) {
            group.addTask { [self] in
              await deliver(app, to: webhook)
              running.withLock { _ = $0.remove(app) }
            }
          }
          try? await clock.sleep(for: Self.lookInterval)
        }
        group.cancelAll()
      }
    }
    await noteAcknowledged()
  }

  /// What is delivered at present, by app.
  private var wanted: [String: Webhook] {
    guard leads() else { return [:] }
    return tenants().compactMapValues(\.webhook)
  }

  private func isWanted(_ app: String, _ webhook: Webhook) -> Bool { leads() && tenants()[app]?.webhook == webhook }

  private func noteAcknowledged() async {
    let numbers = acknowledged.withLock { exchange(&$0, with: [:]) }
    guard !numbers.isEmpty else { return }
    do throws(StoreError) { try await store.noteDelivered(numbers) } catch {
      acknowledged.withLock { $0.merge(numbers) { max($0, $1) } }
    }
  }

  // MARK: One app

  /// Until the app has no receiver any more, or another one.
  private func deliver(_ app: String, to webhook: Webhook) async {
    states.begin(app, receiver: "\(webhook)")
    defer { states.end(app) }
    let receiver = WebhookReceiver(webhook, clock: clock)
    defer { receiver.close() }
    var pace = WebhookPace(seed: .random(in: 0 ... .max))
    guard var last = await delivered(app) else { return }
    while isWanted(app, webhook), !Task.isCancelled {
      var pause = Duration.zero
      do {
        let page = try await feed.page(
          app, after: last, limit: pace.limit, separator: UInt8(ascii: ","), wait: Self.idleWait, clock: clock
        ) { isWanted(app, webhook) }
        try await noteProgress(app, page, behind: last)
        guard page.count > 0 else { continue }
        try await receiver.deliver(page, of: app)
        last = page.last
        acknowledged.withLock { $0[app] = last }
        pace.succeeded()
        succeeded(app, page)
      } catch let failure as WebhookFailure {
        pause = pace.failed(asked: failure.pause)
        failed(app, failure)
      } catch {
        pause = Self.lookInterval
        if !Task.isCancelled { states.change(app) { $0.failure = "gets nothing, because \(error)" } }
      }
      await wait(pause) { isWanted(app, webhook) }
    }
  }

  /// The last outcome that the receiver has; nil: the task was cancelled.
  private func delivered(_ app: String) async -> Int64? {
    while !Task.isCancelled {
      if let progress = try? await store.outcomeProgress(app: app) {
        let number = acknowledged.withLock { $0[app] }
        return max(progress.delivered, number ?? 0)
      }
      try? await clock.sleep(for: Self.lookInterval)
    }
    return nil
  }

  private func noteProgress(_ app: String, _ page: OutcomeFeed.Page, behind last: Int64) async throws(StoreError) {
    let waiting = page.count == 0 ? 0 : try await store.outcomeProgress(app: app).last - last
    states.change(app) { state in
      state.waitingCount = Int(max(Int64(page.count), waiting))
      state.oldest = page.first
    }
    // Numbers have no gap, but what is older than the retention is gone.
    let count = page.last - last - Int64(page.count)
    guard page.count > 0, count > 0 else { return }
    logger.error(
      "outcomes were forgotten before they were delivered", metadata: ["app": "\(app)", "count": "\(count)"])
  }

  private func succeeded(_ app: String, _ page: OutcomeFeed.Page) {
    var former: String?
    states.change(app) { state in
      state.acknowledgedCount += 1
      state.waitingCount -= page.count
      if state.waitingCount <= 0 { state.oldest = nil }
      former = exchange(&state.failure, with: nil)
    }
    if former != nil { logger.notice("outcomes are delivered again", metadata: ["app": "\(app)"]) }
  }

  private func failed(_ app: String, _ failure: WebhookFailure) {
    guard !Task.isCancelled else { return }
    var former: String?
    states.change(app) { state in
      state.failedCount += 1
      former = exchange(&state.failure, with: failure.reason)
    }
    guard former != failure.reason else { return }
    logger.warning(
      "outcomes cannot be delivered, and wait", metadata: ["app": "\(app)", "why": "the receiver \(failure.reason)"])
  }

  private func wait(_ duration: Duration, while isNeeded: () -> Bool) async {
    let end = clock.uptime + duration
    while clock.uptime < end, isNeeded() {
      guard (try? await clock.sleep(for: min(Self.lookInterval, end.since(clock.uptime)))) != nil else { return }
    }
  }
}
