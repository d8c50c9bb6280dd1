internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushTransport
internal import PushWire
internal import Synchronization

/// Runs one point with its own apps, an audience in memory for each, and a recorder.
struct BenchRun: Sendable {
  let plan: BenchPlan
  let settings: BenchSettings
  let gateway: BenchGateway
  /// Set from outside: nothing more is handed over, and notifications in flight get their outcomes.
  let isInterrupted: @Sendable () -> Bool
  /// Called about ten times a second.
  let progress: @Sendable (BenchStage) -> Void

  /// How long all apps that have something to send may take to reach their gateway.
  private static let connectLimit = Duration.seconds(60)
  /// How long to wait for the outcomes of what was sent, after the measured time.
  private static let drainLimit = Duration.seconds(10)
  private static let firstNotificationLimit = Duration.seconds(10)
  private static let tick = Duration.milliseconds(20)

  func run() async throws -> BenchPoint {
    PeakMemory.reset()
    let recorder = BenchRecorder(isOpenLoop: settings.rate != nil, countsAll: isCounted)
    let trickle = BenchRecorder(isOpenLoop: true)
    let route = try gateway.route(settings)
    let plans = (0..<appCount).map { plan(ofApp: $0, route, recorder: $0 < settings.apps ? recorder : trickle) }
    let engine = RunningEngine(threads: plan.threads, journal: nil)
    let apps = plans.map { engine.makeApp($0) }
    let point: Result<BenchPoint, any Error> = await withDiscardingTaskGroup { tasks in
      for app in apps { tasks.addTask { await app.run() } }
      let point = await result { try await run(through: apps, route, recorder: recorder, trickle: trickle) }
      for app in apps { await app.shutDown() }
      return point
    }
    await engine.shutDown()
    return try point.get()
  }

  private func result<Success>(_ body: () async throws -> Success) async -> Result<Success, any Error> {
    do { return .success(try await body()) } catch { return .failure(error) }
  }

  /// The number of apps, with the trickle app as the last one.
  private var appCount: Int { settings.apps + (plan.trickle == nil ? 0 : 1) }

  private func plan(ofApp app: Int, _ route: BenchGateway.Route, recorder: BenchRecorder) -> AppPlan {
    var configuration = AppRules(id: "bench-\(app)")
    configuration.transport = route.transport(settings, app: app)
    configuration.command = plan.command
    configuration.connections = settings.connections...settings.connections
    configuration.batchByteCount = settings.batchByteCount
    configuration.batchDelay = plan.batchDelay
    configuration.policy.windowCount = plan.windowCount
    configuration.policy.confirm = plan.settling.usesProbes ? .probe : .quiet
    configuration.policy.quiet = plan.settling.quiet
    configuration.policy.hasIdentifiers = plan.command.carriesIdentifier
    configuration.observer = recorder.makeObserver()
    return AppPlan(configuration: configuration, dialer: route.dialer(app: app))
  }

  /// One app's part.
  private struct Part: Sendable {
    var audience: BenchAudience
    var run: CampaignRun
  }

  private func run(
    through apps: [App], _ route: BenchGateway.Route, recorder: BenchRecorder, trickle: BenchRecorder
  ) async throws -> BenchPoint {
    let tokens = BenchAudience.tokens(seed: 1)
    let start = MonotonicClock.now
    let parts = try (0..<appCount).map { app in
      let loop =
        app < settings.apps
        ? settings.rate.map { OpenLoop(start: start, perSecond: $0, app: app, of: settings.apps) }
        : plan.trickle.map { OpenLoop(start: start, perSecond: $0) }
      let audience = BenchAudience(tokens: tokens, loop: loop, limit: share(ofApp: app))
      return Part(audience: audience, run: try CampaignRun(try route.campaign(settings, app: app), through: apps[app]))
    }
    let chunkEntries = min(AudienceChunk.defaultEntryLimit, max(64, 65_536 / settings.apps))
    let unfinished = Unfinished(parts.count)
    return try await withThrowingTaskGroup(of: Void.self) { tasks in
      for part in parts {
        tasks.addTask {
          // The audience is in memory, so reading it cannot fail.
          try? await part.run.run(part.audience, chunk: AudienceChunk(entryLimit: chunkEntries))
          unfinished.oneLess()
        }
      }
      do {
        return try await measure(
          RunningLoad(
            apps: apps, recorder: recorder, trickle: trickle, parts: parts, start: start, unfinished: unfinished))
      } catch {
        for part in parts { part.run.cancel() }
        throw error
      }
    }
  }

  private var isCounted: Bool { if case .count = plan.extent { true } else { false } }

  private func share(ofApp app: Int) -> Int {
    guard case .count(let count) = plan.extent else { return .max }
    return count / settings.apps + (app < count % settings.apps ? 1 : 0)
  }

  private final class Unfinished: Sendable {
    private let number: Atomic<Int>
    init(_ count: Int) { number = Atomic(count) }
    func oneLess() { number.subtract(1, ordering: .acquiringAndReleasing) }
    var count: Int { number.load(ordering: .acquiring) }
  }

  private struct RunningLoad: Sendable {
    let apps: [App]
    let recorder: BenchRecorder
    let trickle: BenchRecorder
    let parts: [Part]
    let start: UInt64
    let unfinished: Unfinished

    /// Why an app has stopped; nil: none has.
    var failure: String? { apps.lazy.compactMap(\.failure).first }
    var account: Account { parts.map(\.run.ledger.account).reduce(Account(), +) }
    func stop(at time: UInt64) { for part in parts { part.audience.stop(at: time) } }
  }

  private struct Sample {
    var time = MonotonicClock.now
    var processor = ProcessorTime.now
    var counters: BenchCounters
    init(_ recorder: BenchRecorder) { counters = recorder.counters }
  }

  // MARK: Measuring

  private func measure(_ load: RunningLoad) async throws -> BenchPoint {
    let (first, last) =
      switch plan.extent {
      case .duration(let duration, let warmUp): try await measure(load, for: duration, after: warmUp)
      case .count(let count): try await measure(load, count: count)
      }
    let peak = PeakMemory.byteCount
    try await drain(load)
    let latencies = load.recorder.latencies
    var counters = last.counters - first.counters
    counters.unsent = load.recorder.counters.unsent
    let account = load.account
    return BenchPoint(
      settings: settings, seconds: Double(last.time - first.time) / 1e9, counters: counters,
      processor: last.processor - first.processor, toSocket: LatencySummary(latencies.toSocket),
      toAnswer: LatencySummary(latencies.toAnswer), trickleToSocket: LatencySummary(load.trickle.latencies.toSocket),
      peakMemoryByteCount: peak, account: account, notificationCount: isCounted ? account.settled : counters.written)
  }

  /// From the first connection to the last outcome, as `carillon send` counts.
  private func measure(_ load: RunningLoad, count: Int) async throws -> (Sample, Sample) {
    var first = Sample(load.recorder)
    first.time = load.start
    while load.unfinished.count > 0 {
      if isInterrupted() { load.stop(at: 0) }
      progress(
        .measuring(
          settled: load.recorder.counters.settled,
          fraction: Double(load.recorder.counters.settled) / Double(max(1, count))))
      try await Task.sleep(for: Self.tick)
    }
    if let failure = load.failure { throw CarillonError(.gateway, "the load test failed: \(failure)") }
    return (first, Sample(load.recorder))
  }

  private func measure(
    _ load: RunningLoad, for duration: Duration, after warmUp: Duration
  ) async throws -> (Sample, Sample) {
    try await waitForConnections(load)
    let opens = MonotonicClock.now + warmUp.wholeNanoseconds
    let closes = opens + duration.wholeNanoseconds
    for recorder in [load.recorder, load.trickle] { recorder.measure(opens..<closes) }
    load.stop(at: closes)
    try await wait(until: opens, load) { .warmingUp }
    let first = Sample(load.recorder)
    try await wait(until: closes, load) {
      let elapsed = MonotonicClock.now - opens
      return .measuring(
        settled: load.recorder.counters.written - first.counters.written,
        fraction: Double(elapsed) / Double(closes - opens))
    }
    return (first, Sample(load.recorder))
  }

  /// Waits until the apps have connected, because connecting is not measured. At a low rate the
  /// first notifications of most apps are due late; those are not waited for.
  private func waitForConnections(_ load: RunningLoad) async throws {
    let limit = load.start + Self.connectLimit.wholeNanoseconds
    let expected =
      settings.rate.map { min(settings.apps, 1 + Int($0 * Self.firstNotificationLimit.inSeconds)) } ?? settings.apps
    while !isInterrupted(), load.recorder.startedAppCount < expected {
      if let failure = load.failure { throw CarillonError(.gateway, "the load test failed: \(failure)") }
      guard MonotonicClock.now < limit else {
        throw CarillonError(
          .gateway,
          "only \(load.recorder.startedAppCount) of \(settings.apps) apps could send anything within a minute")
      }
      progress(.connecting(load.recorder.startedAppCount, of: settings.apps))
      try await Task.sleep(for: Self.tick)
    }
  }

  private func wait(until time: UInt64, _ load: RunningLoad, _ stage: () -> BenchStage) async throws {
    while true {
      let now = MonotonicClock.now
      guard now < time else { return }
      if isInterrupted() { return load.stop(at: 0) }
      if let failure = load.failure {
        throw CarillonError(.gateway, "the load test was cut off: \(failure)")
      }
      progress(stage())
      try await Task.sleep(for: min(Self.tick, .nanoseconds(time - now)))
    }
  }

  /// Waits for the outcomes of notifications in flight. What is not sent by then counts with the
  /// wait so far.
  private func drain(_ load: RunningLoad) async throws {
    let limit = MonotonicClock.now + Self.drainLimit.wholeNanoseconds
    var isCancelled = false
    while load.unfinished.count > 0 {
      if !isCancelled, MonotonicClock.now >= limit {
        isCancelled = true
        for part in load.parts { part.run.cancel() }
      }
      progress(.settling)
      try await Task.sleep(for: Self.tick)
    }
    let now = MonotonicClock.now
    for (app, part) in load.parts.enumerated() {
      (app < settings.apps ? load.recorder : load.trickle).gaveUp(on: part.audience.overdue, now: now)
    }
  }
}
