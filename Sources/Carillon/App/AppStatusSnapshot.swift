package import PushEngine
internal import PushTransport
internal import PushWire

/// What an app does at a moment, for those who look at it.
package struct AppStatusSnapshot: Hashable, Sendable {
  package enum State: String, Hashable, Sendable, CaseIterable {
    /// It sends, as far as its gateway allows.
    case running
    /// Its operator has paused it.
    case paused
    /// Its credential was refused, its patience is over, or most of its tokens are bad. It accepts
    /// notifications, and continues when it is resumed or gets another credential. When its
    /// patience is over, it also retries by itself.
    case suspended
    /// It sends nothing any more, and takes nothing in.
    case stopped
  }

  package struct Connections: Hashable, Sendable {
    package var open = 0
    package var opening = 0
    /// Lanes without a connection, which get one when they need it.
    package var closed = 0
  }

  /// What was taken in, acknowledged or not, and has not been given to a connection.
  package struct Queue: Hashable, Sendable {
    package var notifications = 0
    /// The memory that they take.
    package var byteCount = 0
    /// The counts by priority: 10, 5 and 1.
    package var byPriority: [Int: Int] = [:]
    /// How long the oldest notification without an outcome has waited, in this queue or on a
    /// connection. Zero: there is none. Campaigns do not count: they have ``campaignStall``.
    package var oldestAge = Duration.zero
  }

  package var state = State.running
  /// Why it is suspended or has stopped, in one sentence.
  package var reason: String?
  /// Until a suspended app tries again by itself; nil: it does not.
  package var nextTryIn: Duration?
  package var connections = Connections()
  package var queue = Queue()
  /// Notifications that were given to a connection, or wait for one that is about to send them.
  package var windowNotifications = 0
  /// For how long no notification has got an outcome of the campaign that stands still for longest.
  /// Zero: none stands still, as far as the looks at this tell.
  package var campaignStall = Duration.zero
  /// What keeps a running app from progress at present.
  package var obstacle: Obstacle?
  /// Seconds since 1970; nil if nothing is known, as with token keys.
  package var credentialExpiry: Int64?
  /// How long the oldest that waits has waited: a notification that was taken in, or a campaign in
  /// which nothing gets an outcome.
  package var oldestAge: Duration { max(queue.oldestAge, campaignStall) }
  /// `binary` or `http2`.
  package var transport = ""
  /// Host and port.
  package var gateway = ""
  /// Notifications per second, at most; nil: any number.
  package var rateLimit: Double?
  /// Its part of the processor.
  package var weight = 1
}

extension PushApp {
  /// What the app does at present. Costs a few locks: ask about once a second at most.
  package var status: AppStatusSnapshot {
    var status = AppStatusSnapshot()
    let configuration = entry.configuration
    status.transport = configuration.transport.name.rawValue
    status.gateway = "\(configuration.gatewayOrDefault)"
    status.rateLimit = configuration.rateLimit
    status.weight = configuration.weight
    status.credentialExpiry = entry.credential.certificate?.validity.upperBound
    if entry.isPaused { status.state = .paused }
    guard let runtime = entry.runtime else { return status }
    let (app, intake) = (runtime.app, runtime.intake)
    (status.state, status.reason) = Self.state(app)
    status.nextTryIn = app.retryIn
    let activity = app.activity
    status.connections = AppStatusSnapshot.Connections(
      open: activity.openCount, opening: activity.openingCount, closed: activity.closedCount)
    status.obstacle = app.obstacle
    if let intake { status.queue = intake.queue }
    status.campaignStall = runtime.runs.longestStall
    status.windowNotifications = max(0, activity.inFlightCount - (intake?.storedCount ?? 0))
    return status
  }

  /// Its state, and why it is suspended or has stopped: less work than ``status``.
  package var state: (AppStatusSnapshot.State, reason: String?) {
    guard let runtime = entry.runtime else { return (entry.isPaused ? .paused : .running, nil) }
    return Self.state(runtime.app)
  }

  /// See ``AppStatusSnapshot/campaignStall``: to be looked at every few seconds.
  package var campaignStall: Duration { entry.runtime?.runs.longestStall ?? .zero }

  /// See ``AppStatusSnapshot/obstacle``: less work than ``status``.
  package var obstacle: Obstacle? { entry.runtime?.app.obstacle }

  private static func state(_ app: App) -> (AppStatusSnapshot.State, String?) {
    if let failure = app.failure { return (.stopped, failure) }
    let halt = app.halt
    if let suspension = halt.suspension { return (.suspended, suspension) }
    return (halt.isPaused ? .paused : .running, nil)
  }
}

extension AppIntake {
  /// What lies in reservoirs.
  var storedCount: Int { gauges.reduce(0) { $0 + $1.stored.count } }

  var queue: AppStatusSnapshot.Queue {
    var queue = AppStatusSnapshot.Queue()
    for gauge in gauges {
      queue.notifications += gauge.count
      queue.byteCount += gauge.byteCount
      queue.byPriority[gauge.rank.priority] = gauge.count
    }
    queue.oldestAge = oldestAge
    return queue
  }
}

extension ClaimOrder.Rank {
  fileprivate var priority: Int {
    switch self {
    case .high: 10
    case .normal: 5
    case .low: 1
    }
  }
}
