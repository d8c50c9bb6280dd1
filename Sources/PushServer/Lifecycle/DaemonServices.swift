internal import Carillon
internal import Logging
internal import PushEngine
internal import PushService
internal import PushStore
internal import PushTransport
internal import PushWire
internal import ServiceLifecycle

/// Denies readiness for a while before the service ends, so that load balancers send elsewhere.
struct ShutdownAnnouncement: Service {
  let duration: Duration
  let clock: any ServiceClock
  /// Denies readiness. Returns whether the end must be announced, with time for clients.
  let begin: @Sendable () -> Bool
  /// Closes the intake, and ends uploads and event streams. What listens is stopped afterwards.
  let close: @Sendable () -> Void

  /// How long the whole end may take.
  let deadline: EndDeadline

  func run() async throws {
    // Whether the service is asked to end, or one of its parts has failed.
    defer {
      close()
      deadline.begin()
    }
    try await gracefulShutdown()
    deadline.begin()
    guard begin() else { return }
    try? await clock.sleep(for: duration)
  }
}

struct Sending: Service {
  let deployment: Deployment
  /// The journal's failure is known, and the service ends because of it.
  let endsBecauseOfJournal: @Sendable () -> Bool

  func run() async throws {
    do {
      try await deployment.run()
    } catch let error as CarillonError where error.code == .journal && endsBecauseOfJournal() {
      // The others end in good order.
      return
    }
  }
}

/// Gives back what other processes that share the store can send, while connections are still open.
struct Leaving: Service {
  let campaigns: CampaignRunner
  let limit: Duration

  func run() async throws {
    try? await gracefulShutdown()
    await campaigns.leave(within: limit)
  }
}

/// Sends what other nodes have taken in and can send no more.
struct Carrying: Service {
  let carrier: IntakeCarrier?
  let hasRoom: @Sendable (PushApp) -> Bool

  func run() async throws {
    await cancelWhenGracefulShutdown { await carrier?.run(hasRoom: hasRoom) }
  }
}

/// Lets another node lead when this one is drained.
struct HandingOn: Service {
  let membership: NodeMembership
  let clock: any ServiceClock
  /// Whether another node can go on with all that this one does because it leads.
  let isFree: @Sendable () -> Bool

  private static let interval = Duration.seconds(1)

  func run() async throws {
    await cancelWhenGracefulShutdown {
      while (try? await clock.sleep(for: Self.interval)) != nil {
        // What was begun a moment ago is known by now.
        if membership.isDraining, membership.leads, isFree() { await membership.handOn() }
      }
    }
  }
}

/// Gives this process its share of the connections that all nodes may have to an app's gateway.
struct ConnectionSharing: Service {
  let membership: NodeMembership
  let deployment: Deployment
  /// By app; others have what they are configured to have.
  let totals: @Sendable () -> [String: Int]
  let clock: any ServiceClock

  private static let interval = Duration.seconds(1)

  func run() async throws {
    await cancelWhenGracefulShutdown {
      var limited: Set<String> = []
      repeat {
        let (totals, place) = (totals(), membership.place)
        for app in deployment.apps {
          if let total = totals[app.id] {
            app.limit(connections: Self.share(of: total, place: place.own, among: place.count))
          } else if limited.contains(app.id) {
            app.limit(connections: .max)
          }
        }
        limited = Set(totals.keys)
      } while (try? await clock.sleep(for: Self.interval)) != nil
    }
  }

  /// - Parameters:
  ///   - place: of this node, from 0.
  ///   - count: of nodes.
  /// - Returns: at least one: a node without any could not send.
  static func share(of total: Int, place: Int, among count: Int) -> Int {
    max(1, total / max(1, count) + (place < total % max(1, count) ? 1 : 0))
  }
}

/// Pauses and resumes apps when another process that shares the store was told to.
struct PauseFollowing: Service {
  let store: any Store
  let deployment: Deployment
  let clock: any ServiceClock

  private static let interval = Duration.seconds(1)

  func run() async throws {
    await cancelWhenGracefulShutdown {
      // Changes are followed, not states: what this process is told just now may not be stored yet.
      var known: Set<String> = []
      while (try? await clock.sleep(for: Self.interval)) != nil {
        guard let paused = (try? await store.pausedApps()).map({ Set($0.keys) }) else { continue }
        for app in deployment.apps where paused.contains(app.id) != known.contains(app.id) {
          if paused.contains(app.id) { app.pause() } else { await app.resumeWithCredential() }
        }
        known = paused
      }
    }
  }
}

/// Periodic work: writes outcomes, events and the last use of keys to the store, deletes what is
/// older than its retention, asks the database how it is, and gives memory back.
struct Maintenance: Service {
  let store: any Store
  let outcomes: OutcomeRecorder
  let events: EventLog
  let keys: KeyRing
  let metrics: ServiceMetrics
  let retention: Duration
  /// What has its outcome leaves the journal.
  let renewJournal: @Sendable () -> Void
  /// One of those that share the store deletes for all.
  let leads: @Sendable () -> Bool
  let clock: any ServiceClock
  let logger: Logger

  /// Outcomes wait no longer in memory, also when the journal never syncs.
  private static let interval = Duration.seconds(1)
  /// Intervals between the other tasks on the store.
  private static let rareness = 30
  /// Intervals between looks at the memory.
  private static let heapRareness = 5
  /// After this time what is forgotten is not on the disk either, unless it is kept for less.
  private static let scrubbing = Duration.seconds(3_600)

  func run() async throws {
    await cancelWhenGracefulShutdown {
      var count = 0
      var isAway = false
      await askDatabase()
      var heap = HeapTrim()
      var scrubbedAt = clock.uptime
      while (try? await clock.sleep(for: Self.interval)) != nil {
        isAway = await writeOutcomes(wasAway: isAway)
        await events.write()
        count += 1
        if count % Self.rareness == 0 {
          await tidy()
          await askDatabase()
          if clock.uptime.since(scrubbedAt) >= min(Self.scrubbing, retention), await scrub() {
            scrubbedAt = clock.uptime
          }
        }
        if count % Self.heapRareness == 0 { heap.look() }
      }
    }
    // Another part has failed and ended the task: the store would refuse, and is not to blame.
    guard !Task.isCancelled else { return }
    await tidy()
    await events.write()
  }

  /// - Returns: false if it is to be tried again, because somebody reads for long.
  private func scrub() async -> Bool {
    guard (try? await store.scrub()) != nil else { return false }
    renewJournal()
    return true
  }

  /// - Returns: whether the store is away.
  private func writeOutcomes(wasAway: Bool) async -> Bool {
    do throws(UnsyncedList) {
      try await outcomes.makeDurableElsewhere(waits: false)
      if wasAway { logger.notice("the store answers again") }
      return false
    } catch {
      if !error.isAway {
        logger.error("the store cannot be written", metadata: ["path": "\(error.path)", "errno": "\(error.code)"])
      } else if !wasAway {
        logger.error("the store is away: outcomes wait for it", metadata: ["why": "\(StoreError(error))"])
      }
      return error.isAway
    }
  }

  private func askDatabase() async { metrics.note((try? await store.databaseState()) ?? nil) }

  private func tidy() async {
    do throws(StoreError) {
      let uses = keys.takeUses()
      if !uses.isEmpty { try await store.noteUse(of: uses) }
      guard leads() else { return }
      let now = clock.now
      try await store.forget(endedBefore: now.after(seconds: -retention.components.seconds))
      try await store.forgetRequests(begunBefore: Idempotency.oldest(at: now))
      try await store.forgetActivities(registeredBefore: now.after(seconds: -StoredActivityToken.lifetime))
      try await store.forgetForwarded(before: now.after(seconds: -86_400), life: nil)
      try await store.forgetAdmissions(before: now.after(seconds: -Tenant.capLimit.components.seconds))
    } catch {
      guard !Task.isCancelled else { return }
      logger.error("the store cannot be written", metadata: ["why": "\(error)"])
    }
  }
}
