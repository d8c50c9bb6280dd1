internal import Carillon
internal import PushEngine
internal import PushService
internal import PushStore
internal import PushTransport
internal import PushWire

/// Something that a person should look at.
struct Alarm: Hashable, Sendable {
  /// The names that metrics and the guide use.
  enum Name: String, Hashable, Sendable, CaseIterable {
    case journalFailed, storeAway, descriptorsLacking, diskAlmostFull
    case nodeSilent, clocksApart, configurationsDiffer, databaseUnreplicated
    case appStopped, appSuspended, nothingGetsThrough, credentialExpired
    case credentialExpiresSoon, queueOld, campaignStuck, webhookBehind, appPaused
  }

  enum Severity: Int, Hashable, Sendable, Comparable {
    case warning, critical

    static func < (first: Severity, second: Severity) -> Bool { first.rawValue < second.rawValue }
  }

  let name: Name
  let severity: Severity
  /// Nil: it concerns the service.
  let app: String?
  /// Nil: it concerns none, or all.
  var node: String?
  /// A sentence.
  let text: String
  /// What helps, as a sentence.
  let action: String
  /// When the service tries again by itself; nil: not known, or never.
  var nextTryIn: Duration?
}

/// Decides what is alarming. Time is a parameter.
struct AlarmRules: Sendable {
  /// Certificates are renewed by hand, which takes days. Alert rules and guides name this too.
  static let expiryWarning = Duration.seconds(CredentialFinding.warningDays * 86_400)
  static let expiryCritical = Duration.seconds(7 * 86_400)
  /// An older notification raises an alarm.
  static let oldestAge = Duration.seconds(60)
  /// Shorter interruptions raise no alarm.
  static let obstacleAge = Duration.seconds(10)
  static let freeBytes = 1 << 30
  /// An outcome that has waited longer for its receiver raises an alarm.
  static let webhookLag = Duration.seconds(300)

  /// - Parameters:
  ///   - statuses: with the app of each.
  ///   - pausedAt: by app, when it was paused, in seconds since 1970.
  ///   - journalFailure: a sentence; nil: there is none.
  ///   - storeAway: for how long; nil: it is not.
  ///   - lacksDescriptors: at present, or within the last minute.
  ///   - nodes: those that share the store.
  ///   - database: as it was lately; nil: there is none, or it is away.
  ///   - webhooks: how deliveries go, by app.
  ///   - disk: of journal or store, the one that has less left; nil: not known.
  ///   - now: seconds since 1970.
  static func alarms(
    _ statuses: [(app: String, status: AppStatusSnapshot)], pausedAt: [String: Int64] = [:], journalFailure: String?,
    storeAway: Duration? = nil, lacksDescriptors: Bool = false, nodes: [StoredNode] = [],
    database: DatabaseState? = nil, webhooks: [String: WebhookState] = [:], disk: FreeSpace?, now: Int64
  ) -> [Alarm] {
    var alarms: [Alarm] = []
    if let journalFailure {
      alarms.append(
        Alarm(
          name: .journalFailed, severity: .critical, app: nil,
          text: "The journal cannot be written, so nothing is accepted: \(journalFailure.asSentence)",
          action: "Make room on the disk or repair it: the service then restarts by itself."))
    }
    if let storeAway, storeAway >= obstacleAge {
      alarms.append(
        Alarm(
          name: .storeAway, severity: .critical, app: nil,
          text: "The store has been away for \(NumberText.age(storeAway)): outcomes and campaigns wait for it.",
          action: "See in the log what keeps it: nothing is lost, and everything continues by itself."))
    }
    if lacksDescriptors {
      alarms.append(
        Alarm(
          name: .descriptorsLacking, severity: .critical, app: nil,
          text: "The service has too few file descriptors, so connections are not accepted, or not opened.",
          action: "Raise its limit of open files, such as LimitNOFILE of systemd, and restart it."))
    }
    if let disk, disk.byteCount < freeBytes {
      alarms.append(
        Alarm(
          name: .diskAlmostFull, severity: .warning, app: nil,
          text: "The disk of the \(disk.of) has \(NumberText.bytes(disk.byteCount)) left.",
          action: "Make room: a full disk ends the intake of every app."))
    }
    alarms += self.alarms(nodes)
    if let database, database.standbyCount ?? 0 > 0, database.synchronousStandbyCount == 0 {
      alarms.append(
        Alarm(
          name: .databaseUnreplicated, severity: .warning, app: nil,
          text: "No standby of the database is synchronous.",
          action: "Name one in synchronous_standby_names: what is committed may be lost with the machine otherwise."))
    }
    for (app, status) in statuses {
      alarms += self.alarms(app, status, pausedAt: pausedAt[app], now: now)
      if let webhook = webhooks[app] { alarms += self.alarms(app, webhook, now: now) }
    }
    // Equal alarms keep their order.
    return alarms.enumerated().sorted {
      $0.element.severity == $1.element.severity ? $0.offset < $1.offset : $0.element.severity > $1.element.severity
    }.map(\.element)
  }

  /// What is wrong with those that share the store.
  private static func alarms(_ nodes: [StoredNode]) -> [Alarm] {
    var alarms: [Alarm] = []
    func add(_ name: Alarm.Name, of node: String? = nil, _ text: String, _ action: String) {
      alarms.append(Alarm(name: name, severity: .warning, app: nil, node: node, text: text, action: action))
    }
    for node in nodes where node.state == .silent || node.state == .lost {
      add(
        .nodeSilent, of: node.name,
        node.state == .lost
          ? "The node \(node.name) was silent, and others have taken its place."
          : "The node \(node.name) has been silent for \(NumberText.age(node.silence)).",
        "See whether it runs and reaches the database. Start it again, or forget it.")
    }
    // The database's clock is the zero.
    let clocks = nodes.filter(\.isAlive).compactMap(\.facts.clockOffset) + [.zero]
    if let first = clocks.min(), let last = clocks.max(), last - first > StoredNode.clockTolerance {
      add(
        .clocksApart, "The clocks of the nodes and the database are \(NumberText.age(last - first)) apart.",
        "Run a time service on all machines: times of campaigns and quiet hours are told by these clocks.")
    }
    let others = StoredNode.configuredOtherwise(nodes).sorted()
    if !others.isEmpty {
      add(
        .configurationsDiffer,
        "The configuration of \(others.joined(separator: ", ")) is not that of the node that leads.",
        "Give all nodes the same apps and settings, and reload or restart them.")
    }
    return alarms
  }

  private static func alarms(_ app: String, _ status: AppStatusSnapshot, pausedAt: Int64?, now: Int64) -> [Alarm] {
    var alarms: [Alarm] = []
    func add(
      _ name: Alarm.Name, _ severity: Alarm.Severity, _ text: String, _ action: String, nextTryIn: Duration? = nil
    ) {
      alarms.append(
        Alarm(name: name, severity: severity, app: app, text: text, action: action, nextTryIn: nextTryIn))
    }
    let reason = status.reason.map { ": \($0)".asSentence } ?? "."
    let waiting = waiting(status)
    switch status.state {
    case .stopped:
      add(
        .appStopped, .critical, "It has stopped\(reason)",
        waiting + "Remove the cause: the service then restarts by itself, or restart it.")
    case .suspended:
      add(
        .appSuspended, .critical, "It is suspended\(reason)",
        waiting + "Replace the credential and reload, or mend the cause and resume the app.",
        nextTryIn: status.nextTryIn)
    case .paused:
      let since = pausedAt.map { " \(NumberText.age(.seconds(max(0, now - $0)))) ago" } ?? ""
      add(.appPaused, .warning, "It was paused by hand\(since).", waiting + "Resume it when it may send again.")
    case .running:
      if let obstacle = status.obstacle, !obstacle.isOwnLimit, obstacle.lasting >= obstacleAge {
        add(
          .nothingGetsThrough, .critical,
          "Nothing has got through for \(NumberText.age(obstacle.lasting)): \(obstacle.cause.asSentence)",
          waiting + "See whether the gateway can be reached from this machine.", nextTryIn: obstacle.nextTryIn)
      } else if status.queue.oldestAge >= oldestAge {
        add(
          .queueOld, .warning, "Its oldest notification has waited for \(NumberText.age(status.queue.oldestAge)).",
          "See its connections, its rate limit, and whether a campaign fills its queue.")
      } else if status.campaignStall >= oldestAge {
        add(
          .campaignStuck, .warning, "A campaign has stood still for \(NumberText.age(status.campaignStall)).",
          "See its connections, and whether its gateway answers.")
      }
    }
    if let expiry = status.credentialExpiry {
      let left = Duration.seconds(expiry - now)
      if left <= .zero {
        add(.credentialExpired, .critical, "Its certificate has expired.", "Request a new one, and reload.")
      } else if left < expiryWarning {
        add(
          .credentialExpiresSoon, left < expiryCritical ? .critical : .warning,
          "Its certificate expires in \(NumberText.age(left)).", "Request a new one, replace the file, and reload.")
      }
    }
    return alarms
  }

  private static func alarms(_ app: String, _ webhook: WebhookState, now: Int64) -> [Alarm] {
    let lag = webhook.lag(at: StoreInstant(milliseconds: now * 1000))
    guard lag >= webhookLag else { return [] }
    let why = webhook.failure.map { ": the receiver \($0)".asSentence } ?? "."
    return [
      Alarm(
        name: .webhookBehind, severity: .warning, app: app,
        text: "Its oldest outcome has waited \(NumberText.age(lag)) for \(webhook.receiver)\(why)",
        action: "\(NumberText.grouped(webhook.waitingCount)) wait. See what the receiver answers: what is older than "
          + "the retention is not delivered any more.")
    ]
  }

  /// What an app that does not send holds back, as a sentence and a space; empty: nothing.
  private static func waiting(_ status: AppStatusSnapshot) -> String {
    let count = status.pendingCount
    guard count > 0 else { return "" }
    let notifications = count == 1 ? "1 notification waits" : "\(NumberText.grouped(count)) notifications wait"
    return "\(notifications), the oldest for \(NumberText.age(status.oldestAge)). "
  }
}

extension AppStatusSnapshot {
  /// Notifications without an outcome, wherever they are.
  var pendingCount: Int { queue.notifications + windowNotifications }
}
