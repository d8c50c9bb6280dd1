package import Logging
package import PushStore
internal import Synchronization

/// What is done with the service, and what it notices: a line of the log each, and a row of the
/// store.
package final class EventLog: Sendable {
  private struct State {
    /// Those that the store does not have yet, the oldest first.
    var waiting: [StoredEvent] = []
    /// Those that waited too long.
    var lostCount = 0
    var lastID = StoredUUID(high: 0, low: 0)

    /// In the order in which they happen, also within a millisecond.
    mutating func nextID(at instant: StoreInstant) -> StoredUUID {
      let id = StoredUUID.make(at: instant)
      let isLater = (lastID.high, lastID.low) < (id.high, id.low)
      lastID = isLater ? id : StoredUUID(high: lastID.high, low: lastID.low &+ 1)
      return lastID
    }

    mutating func wait(_ events: [StoredEvent]) {
      waiting = (waiting + events).sorted { ($0.id.high, $0.id.low) < ($1.id.high, $1.id.low) }
      let excess = max(0, waiting.count - EventLog.waitingLimit)
      waiting.removeFirst(excess)
      lostCount += excess
    }
  }

  private let store: any Store
  private let node: String?
  private let clock: any ServiceClock
  private let logger: Logger
  private let isAway: @Sendable () -> Bool
  private let state = Mutex(State())

  /// While the store is away.
  private static let waitingLimit = 1_000
  /// Characters of a reason.
  private static let reasonLimit = 1_000

  /// - Parameters:
  ///   - node: of those that share the store; nil: nobody else does.
  ///   - isAway: whether the store is known to be away: nobody waits for it then.
  package init(
    store: any Store, node: String? = nil, clock: any ServiceClock, logger: Logger,
    isAway: @escaping @Sendable () -> Bool = { false }
  ) {
    (self.store, self.node, self.clock, self.logger, self.isAway) = (store, node, clock, logger, isAway)
  }

  /// Those that the store does not have yet.
  var waitingCount: Int { state.withLock { $0.waiting.count } }

  /// The service has noticed something: a notice in the log, and the store gets it with the next
  /// ``write()``.
  ///
  /// - Parameter subject: see ``StoredEvent/subject``.
  package func note(_ action: String, app: String? = nil, subject: String? = nil, reason: String? = nil) {
    var event = event(.change, action, app: app)
    (event.subject, event.reason) = (subject, reason.map(Self.bounded))
    var metadata: Logger.Metadata = [:]
    for (name, value) in [("app", app), ("of", subject), ("why", reason)] { metadata[name] = value.map { "\($0)" } }
    logger.notice("\(action)", metadata: metadata)
    state.withLock { $0.wait([event]) }
  }

  /// Somebody has done something, or has tried. The log has its line already. Returns when the
  /// store has it, or does not take it now.
  package func record(
    _ kind: StoredEvent.Kind, _ action: String, app: String?, subject: String?, key: String?, address: String?,
    reason: String?
  ) async {
    var event = event(kind, action, app: app)
    (event.subject, event.key, event.address) = (subject, key, address)
    event.reason = reason.map(Self.bounded)
    await write([event])
  }

  /// Databases take no zeros in texts.
  private static func bounded(_ reason: String) -> String {
    String(reason.prefix(reasonLimit)).replacing("\0", with: "\u{fffd}")
  }

  private func event(_ kind: StoredEvent.Kind, _ action: String, app: String?) -> StoredEvent {
    let now = clock.now
    var event = StoredEvent(id: state.withLock { $0.nextID(at: now) }, at: now, kind, action, app: app)
    event.node = node
    return event
  }

  /// Gives the store what it does not have yet. To be called now and then.
  package func write() async {
    guard !isAway() else { return }
    let (events, lostCount) = state.withLock { (exchange(&$0.waiting, with: []), exchange(&$0.lostCount, with: 0)) }
    // The store gets this with the next call.
    if lostCount > 0 { note("events were lost", reason: "\(lostCount) were too many to keep while the store was away") }
    if !events.isEmpty { await write(events) }
  }

  private func write(_ events: [StoredEvent]) async {
    do throws(StoreError) {
      if !isAway() { return try await store.add(events, keeping: StoredEvent.keptCount) }
    } catch {
      // What the store will never take must not hold up the others; the log has its lines.
      if error.kind == .failed, !Task.isCancelled {
        return logger.error("events are only in the log", metadata: ["why": "\(error)", "count": "\(events.count)"])
      }
    }
    state.withLock { $0.wait(events) }
  }
}
