internal import Carillon
internal import PushEngine
internal import PushService
internal import PushStore
internal import PushWire
internal import Synchronization

/// The alarms of the service, and since when each of them stands.
final class AlarmWatch: Sendable {
  private let deployment: Deployment
  private let outcomes: OutcomeRecorder
  private let statistics: ServiceStatistics
  private let webhooks: WebhookStates
  private let membership: NodeMembership
  private let lacksDescriptors: @Sendable () -> Bool
  private let databaseState: @Sendable () -> DatabaseState?
  private let events: EventLog
  private let clock: any ServiceClock
  private let phases = Mutex(AlarmPhases())

  /// - Parameter databaseState: as it was lately; nil: there is none, or it is away.
  init(
    deployment: Deployment, outcomes: OutcomeRecorder, statistics: ServiceStatistics, webhooks: WebhookStates,
    membership: NodeMembership, lacksDescriptors: @escaping @Sendable () -> Bool,
    databaseState: @escaping @Sendable () -> DatabaseState?, events: EventLog, clock: any ServiceClock
  ) {
    (self.deployment, self.outcomes, self.statistics, self.webhooks) = (deployment, outcomes, statistics, webhooks)
    (self.membership, self.lacksDescriptors, self.databaseState) = (membership, lacksDescriptors, databaseState)
    (self.events, self.clock) = (events, clock)
  }

  /// - Parameters:
  ///   - statuses: of these apps.
  ///   - pausedAt: by app, when it was paused.
  ///   - nodes: those that share the store, if their alarms are wanted.
  func alarms(
    _ statuses: [(app: String, status: AppStatusSnapshot)], pausedAt: [String: StoreInstant] = [:],
    nodes: [StoredNode] = []
  ) -> [Alarm] {
    AlarmRules.alarms(
      statuses, pausedAt: pausedAt.mapValues { $0.milliseconds / 1000 }, journalFailure: deployment.journalFailure,
      storeAway: outcomes.awayDuration, lacksDescriptors: lacksDescriptors(), nodes: nodes, database: databaseState(),
      webhooks: webhooks.all, disk: statistics.fullerDisk, now: clock.now.seconds)
  }

  /// When an alarm began; nil: it was not seen yet.
  func since(_ alarm: Alarm) -> StoreInstant? { phases.withLock { $0.since(alarm) } }

  /// Notes what began and what is over. To be called every few seconds.
  func look() {
    let found = alarms(
      deployment.apps.map { ($0.id, $0.status) }, nodes: membership.isShared ? membership.lastSeen : [])
    let (begun, over) = phases.withLock { $0.look(found, at: clock.now, now: clock.uptime) }
    for alarm in begun where tells(alarm.name) {
      events.note("alarm", app: alarm.app, subject: alarm.name.rawValue, reason: alarm.text)
    }
    for (subject, duration) in over where tells(subject.name) {
      events.note(
        "alarm over", app: subject.app, subject: subject.name.rawValue,
        reason: (subject.node.map { "The node \($0), " } ?? "") + "after \(NumberText.age(duration))")
    }
  }

  /// Who pauses an app is noted anyway, and one of those that share the store tells of all of them.
  private func tells(_ name: Alarm.Name) -> Bool {
    switch name {
    case .appPaused: false
    case .nodeSilent, .clocksApart, .configurationsDiffer, .databaseUnreplicated: membership.leads
    default: true
    }
  }
}

/// Which alarms stand, and since when. Time is a parameter.
struct AlarmPhases: Sendable {
  /// What an alarm is about: its text changes while it stands.
  struct Subject: Hashable, Sendable {
    let name: Alarm.Name
    let app: String?
    let node: String?

    init(_ alarm: Alarm) { (name, app, node) = (alarm.name, alarm.app, alarm.node) }
  }

  private struct Phase: Sendable {
    let since: StoreInstant
    let begunAt: Instant
    var seenAt: Instant
  }

  private var phases: [Subject: Phase] = [:]

  /// What comes again sooner was never over: what comes and goes fills no list.
  static let calm = Duration.seconds(60)

  func since(_ alarm: Alarm) -> StoreInstant? { phases[Subject(alarm)]?.since }

  /// - Parameter found: all alarms at present.
  /// - Returns: those that began, and what is over, with how long it stood.
  mutating func look(
    _ found: [Alarm], at instant: StoreInstant, now: Instant
  ) -> (begun: [Alarm], over: [(subject: Subject, duration: Duration)]) {
    var begun: [Alarm] = []
    for alarm in found {
      let subject = Subject(alarm)
      if phases[subject] == nil {
        phases[subject] = Phase(since: instant, begunAt: now, seenAt: now)
        begun.append(alarm)
      }
      phases[subject]?.seenAt = now
    }
    var over: [(subject: Subject, duration: Duration)] = []
    for (subject, phase) in phases where now.since(phase.seenAt) >= Self.calm {
      phases[subject] = nil
      over.append((subject, phase.seenAt.since(phase.begunAt)))
    }
    return (begun, over)
  }
}
